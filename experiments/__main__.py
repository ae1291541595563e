"""All experiments of the paper, one after another."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from experiments.order import ORDER
from experiments.results import DRAWS_HELP, OUT, Place


def main() -> None:
    """Run what the command line names, or everything."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="*", default=[], metavar="NAME", help=", ".join(ORDER))
    parser.add_argument("--draws", type=int, default=20_000, help=DRAWS_HELP)
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder (default {OUT})")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(ORDER)
    if unknown:
        parser.error(f"no experiment is called {', '.join(sorted(unknown))}")
    place = Place(arguments.out, arguments.draws)
    for name in arguments.names or ORDER:
        began = time.monotonic()
        print(f"== {name}", file=sys.stderr, flush=True)
        place.write(name, importlib.import_module(f"experiments.{name}").run(place))
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
