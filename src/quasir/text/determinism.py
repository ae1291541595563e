"""The same numbers for any number of threads: a setting made before torch is imported.

On most CPUs torch multiplies matrices with Intel MKL. Its order of summation depends on the number
of threads, and sometimes the last bit decides which token is drawn. In strict mode the order is
fixed, so one process and several give the same draws. With other libraries, or on another kind of
CPU, a draw may still differ.
"""

from __future__ import annotations

import os

__all__: list[str] = []

os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
