"""Shards that lie elsewhere than the run."""

import numpy as np
import pytest
from scipy import stats

import quasir as qr
from quasir.engines import Local
from quasir.runs.draw_shards import draw_into
from quasir.store import Store
from tests.store.test_store import same

TARGET, PROPOSAL = qr.from_scipy(stats.poisson(11)), qr.from_scipy(stats.poisson(10))
N = 7000


def hashes(store):
    return {number: shard.sha256 for number, shard in Store.open(store.folder).shards.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    store = Store.create(tmp_path_factory.mktemp("whole") / "run", seed=4, blocks_a_shard=1)
    draw_into(store, TARGET, PROPOSAL, N)
    return store


def test_shards_at_an_address(whole, tmp_path):
    """Shards go to any address of fsspec; manifest and summaries stay with the run."""
    address = f"file://{tmp_path / 'elsewhere'}"
    store = Store.create(tmp_path / "run", seed=4, blocks_a_shard=1, shards_at=address)
    draw_into(store, TARGET, PROPOSAL, N, engine=Local())
    assert hashes(store) == hashes(whole)
    assert not (tmp_path / "run" / "draws").exists()
    assert len(list((tmp_path / "elsewhere").iterdir())) == len(whole.shards)
    opened = Store.open(tmp_path / "run")
    same(qr.Draws.load(opened), qr.Draws.load(whole))
    curve = qr.tradeoff(opened, stream=True)
    np.testing.assert_array_equal(curve.tvd.value, qr.tradeoff(whole, stream=True).tvd.value)
    assert len(list((tmp_path / "run" / "draws").glob("*.summary"))) == len(whole.shards)
    (tmp_path / "elsewhere" / "shard-00003.parquet").write_bytes(b"x")
    assert Store.open(tmp_path / "run").damaged() == [3]
    (tmp_path / "elsewhere" / ".shard-00001.parquet.1.partial").touch()
    opened.forget([3])
    draw_into(opened, TARGET, PROPOSAL, N)
    assert hashes(opened) == hashes(whole)
    assert len(list((tmp_path / "elsewhere").iterdir())) == len(whole.shards)


def test_an_address_that_cannot_be_used(tmp_path):
    store = Store.create(tmp_path / "run", seed=4, shards_at="nosuch://bucket")
    with pytest.raises(qr.errors.InputError, match="nosuch://bucket"):
        draw_into(store, TARGET, PROPOSAL, 10)
