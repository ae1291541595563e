"""The experiments of the paper, one file for each figure and table.

`python -m experiments --draws 20000 --out runs/paper` makes all of them, small; `make paper` does
this too. `python -m experiments.fig2 --draws 1000000 --out runs/paper` makes one. Draws are stored,
so the same command resumes, and a larger `--draws` adds to what is there. `docs/paper.md` is made
from the results by `python -m experiments.page`.
"""
