"""What F_θ is: the networks, which use nothing else of the package."""

from gibbsdiff.networks.original import OriginalUNet, load_lightning
from gibbsdiff.networks.resunet import ResUNet
from gibbsdiff.networks.unet import Heads, Trunk, UNet

__all__ = ["Heads", "OriginalUNet", "ResUNet", "Trunk", "UNet", "load_lightning"]
