"""Better proposals by distributional policy gradients. Importing this package imports torch."""

from quasir.tuning.dpg import DPG

__all__ = ["DPG"]
