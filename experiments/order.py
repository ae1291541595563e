"""The experiments in the order of the paper."""

__all__ = ["ORDER"]

ORDER = (
    "fig2",
    "fig3",
    "fig4",
    "fig5",
    "extra_scientists",
    "extra_sports",
    "extra_female",
    "extra_amazing",
    "extra_rare",
    "betas",
    "qrs_vs_imh",
    "ext_female_science",
    "ext_amazing",
    "is_variance",
)
