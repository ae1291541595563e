"""Better proposals by distributional policy gradients. Importing this package imports torch."""

from quasir.tuning.dpg import DPG
from quasir.tuning.losses import LOSSES

__all__ = ["DPG", "LOSSES"]
