"""What `import quasir` brings in, and what examples the documents promise."""

import subprocess
import sys


def test_import_is_light():
    heavy = ["scipy.stats", "matplotlib", "pandas", "torch", "transformers", "pyarrow"]
    code = f"import sys, quasir; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out.strip() == "[]"


def test_public_names_are_there():
    import quasir

    assert all(hasattr(quasir, name) for name in quasir.__all__)
