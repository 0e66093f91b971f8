"""Data to train and test on: folders of pictures, periodic maps, the dust simulator."""
