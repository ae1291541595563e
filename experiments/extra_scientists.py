"""The panel `scientists` of the extra figure of appendix A (`fig:extra-ctg-experiments`)."""

from __future__ import annotations

from functools import partial

from experiments.extra import result
from experiments.results import main

run = partial(result, panel="scientists")

if __name__ == "__main__":
    main("extra_scientists", run, __doc__)
