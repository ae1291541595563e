"""Better proposals by distributional policy gradients. torch is imported here too."""

from quasir.tuning.dpg import DPG
from quasir.tuning.losses import LOSSES

__all__ = ["DPG", "LOSSES"]
