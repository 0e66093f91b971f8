"""What the methods are worth: the paper's tables, calibration, baselines, cluster runs."""
