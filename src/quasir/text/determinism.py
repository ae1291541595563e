"""The same numbers whatever the number of threads: set before torch is imported.

Intel's library, which torch multiplies matrices with on most CPUs, adds up in another order for
another number of threads, and now and then a last bit decides on a token. Its strict mode does not,
so a run is the same in one process or in several. On other libraries, and from one kind of CPU to
another, ties may still fall otherwise.
"""

from __future__ import annotations

import os

__all__: list[str] = []

os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
