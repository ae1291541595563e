"""The experiments of the paper, one file for each figure or table.

`python -m experiments --draws 20000 --out runs/paper` makes all of them; `python -m
experiments.fig5 --draws 20000 --out runs/paper` makes one. `--draws` are the draws of each pool;
draws are stored, so the same command resumes, a larger number adds to what is there, and 0 makes a
figure from what is there. `--models paper` takes the paper's own models from the hub. `python -m
experiments.page` writes `docs/paper.md` from the results.
"""

ORDER = ("fig2", "fig3", "fig4", "fig5", "panels", "samplers", "is_variance")
"""The experiments in the order of the paper."""
