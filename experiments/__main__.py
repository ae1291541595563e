"""All experiments of the paper, one after another."""

from __future__ import annotations

import argparse
import importlib
import sys

from experiments import ORDER
from experiments.results import arguments, make, place_of


def main() -> None:
    """Run what the command line names, or everything."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="*", default=[], metavar="NAME", help=", ".join(ORDER))
    arguments(parser)
    given = parser.parse_args()
    if unknown := set(given.names) - set(ORDER):
        parser.error(f"no experiment is called {', '.join(sorted(unknown))}")
    place = place_of(given)
    for name in given.names or ORDER:
        print(f"== {name}", file=sys.stderr, flush=True)
        make(name, importlib.import_module(f"experiments.{name}").run, place)


if __name__ == "__main__":
    main()
