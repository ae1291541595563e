"""The command line: stdout is data, stderr is progress.

Exit codes: 0 done; 1 an error that the message explains; 2 a wrong command line or recipe; 130
stopped by hand (the same command then goes on).
"""

from quasir.cli.main import main

__all__ = ["main"]
