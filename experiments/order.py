"""The experiments in the order of the paper."""

__all__ = ["ORDER"]

ORDER = (
    "fig2",
    "fig4",
    "extra_scientists",
    "extra_sports",
    "extra_female",
    "betas",
    "qrs_vs_imh",
    "ext_female_science",
    "is_variance",
)
