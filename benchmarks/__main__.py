"""Print the benchmark table: `make bench`, on a machine that does nothing else."""

from itertools import chain

from benchmarks import core, show, targets, text

if __name__ == "__main__":
    show.table(chain(core.rows(), targets.rows(), text.rows()))
