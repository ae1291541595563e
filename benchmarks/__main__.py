"""Print the benchmark table: `make bench`, on an otherwise idle machine.

`python -m benchmarks text` prints one part only.
"""

import sys
from itertools import chain

from benchmarks import (
    contexts,
    core,
    guides,
    metrics,
    samplers,
    scale,
    show,
    store,
    targets,
    text,
    tuning,
)

PARTS = {
    "core": core,
    "targets": targets,
    "samplers": samplers,
    "metrics": metrics,
    "store": store,
    "text": text,
    "guides": guides,
    "contexts": contexts,
    "tuning": tuning,
    "scale": scale,
}

if __name__ == "__main__":
    asked = sys.argv[1:] or list(PARTS)
    if unknown := set(asked) - set(PARTS):
        sys.exit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    show.table(chain.from_iterable(PARTS[name].rows() for name in asked))
