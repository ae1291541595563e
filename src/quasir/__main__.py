"""`python -m quasir` is the `quasir` command."""

from quasir.cli import main

if __name__ == "__main__":
    main()
