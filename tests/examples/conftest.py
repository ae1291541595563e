"""Tiny networks are fastest on one thread."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("llguidance")
torch.set_num_threads(1)
