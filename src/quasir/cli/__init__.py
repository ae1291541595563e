"""The command line: stdout is data, stderr is progress.

Exit codes: 0 done; 1 an error that the message explains, or stdout that cannot be written; 2 a
wrong command line, value or recipe; 70 a bug in quasir, with a traceback in a file; 130 stopped by
hand (the same command then goes on).
"""

from quasir.cli.main import main

__all__ = ["main"]
