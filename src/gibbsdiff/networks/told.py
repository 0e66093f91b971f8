"""The first layer that a network is told φ by."""

from torch import nn


class Told(nn.Linear):
    """A linear layer of φ (B, K). White noise has no φ but its level, K = 0: the layer is then its
    bias, (B, 0) -> (B, E).
    """

    def reset_parameters(self) -> None:
        """PyTorch's default weights; a bias without weights begins at 0."""
        if self.in_features:
            super().reset_parameters()
        else:
            nn.init.zeros_(self.bias)
