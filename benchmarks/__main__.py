"""Print the benchmark table: `make bench`, on a machine that does nothing else."""

from benchmarks import core, show

if __name__ == "__main__":
    show.table(core.rows())
