"""What a store keeps comes back, and what it says of itself is true."""

import json
import os
import socket

import numpy as np
import pytest

import quasir as qr
from quasir.core.items import Text
from quasir.core.streams import BLOCK
from quasir.store.control import ask_to_stop, clear_stop, holder_ended, stop_asked
from quasir.store.locations import location_of
from quasir.store.manifest import seal_of
from quasir.store.store import Rows, Store


def rows_of(n, items=None, **columns):
    numbers = {"log_q": np.full(n, -1.0), "log_p": np.full(n, -2.0), "log_u": np.full(n, -0.5)}
    return Rows(numbers | columns, items)


@pytest.mark.parametrize(
    "items",
    [
        ["a", "", "längs", "日本"],
        [1, 2, 3, 2**40],
        [[1, 2], {"a": None}, "x", 2.5],
        [],
    ],
)
def test_items_come_back(tmp_path, items):
    store = Store.create(tmp_path / "run", seed=1, blocks_a_shard=1)
    store.add(0, rows_of(len(items), list(items)))
    if items:
        back = Store.open(tmp_path / "run").rows().items
        assert [item.tolist() if hasattr(item, "tolist") else item for item in back] == items


def test_texts_keep_their_tokens(tmp_path):
    texts = [Text("one", (1,)), Text("", ()), Text("two words", (2, 3, 2))]
    store = Store.create(tmp_path / "run", seed=1, blocks_a_shard=1)
    store.add(0, rows_of(3, texts))
    items = Store.open(tmp_path / "run").rows().items
    assert [(str(item.text), tuple(item.token_ids)) for item in items] == [
        (text.text, text.token_ids) for text in texts
    ]
    some = store.items_of(0, np.array([2, 0]))
    assert [tuple(item.token_ids) for item in some] == [(2, 3, 2), (1,)]


def test_draws_before_the_first_gap_are_counted(tmp_path):
    store = Store.create(tmp_path / "run", seed=1, blocks_a_shard=1)
    assert len(store) == 0
    with pytest.raises(qr.errors.StoreError, match="holds no draws yet"):
        store.numbers()
    store.add(0, rows_of(BLOCK))
    assert (len(store), store.numbers()) == (BLOCK, range(1))
    store.add(2, rows_of(BLOCK))
    assert len(store) == BLOCK
    store.add(1, rows_of(BLOCK))
    assert (len(store), store.numbers()) == (3 * BLOCK, range(3))
    store.add(3, rows_of(10))
    assert (len(store), store.numbers()) == (3 * BLOCK + 10, range(4))
    store.add(4, rows_of(BLOCK))  # after a short shard nothing counts
    assert len(store) == 3 * BLOCK + 10
    assert store.missing(3 * BLOCK + 10) == []
    assert store.missing(3 * BLOCK + 11) == [3]
    assert store.missing(6 * BLOCK) == [3, 5]
    assert store.draws_in(3, 3 * BLOCK + 10) == 10
    assert store.draws_in(4, 3 * BLOCK + 10) == 0
    assert store.draws_in(0, 3 * BLOCK + 10) == BLOCK


def test_the_manifest_is_what_was_said(tmp_path):
    store = Store.create(
        tmp_path / "run", seed=2**100, blocks_a_shard=3, warnings=("one", "two"), known={"a": 1}
    )
    again = Store.open(tmp_path / "run")
    assert again.seed == 2**100
    assert again.shard_size == 3 * BLOCK
    assert again.warnings == ("one", "two")
    assert again.manifest.known == {"a": 1}
    assert again.manifest == store.manifest
    plain = Store.create(tmp_path / "plain", seed=0)
    written = json.loads((tmp_path / "plain" / "manifest.json").read_text())
    assert Store.open(tmp_path / "plain").warnings == plain.warnings == ()
    assert plain.manifest.known is None
    assert "warnings" not in written
    assert "known" not in written


def test_a_location_makes_its_folders_and_tells_its_files_apart(tmp_path):
    place = location_of(tmp_path / "a" / "b")
    sha256 = place.write("x", lambda path: path.write_bytes(b"hello"))
    assert place.content("x") == b"hello"
    assert place.sha256("x") == sha256
    assert place.identity("x")[0] == 5
    (tmp_path / "a" / "b" / ".y.1.partial").write_bytes(b"left")
    place.clean()
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == ["x"]


def test_whether_the_holder_has_ended(tmp_path):
    assert not holder_ended(tmp_path)  # nobody held it
    lock, host = tmp_path / ".lock", socket.gethostname()
    lock.write_text(f"{os.getpid()} on {host}")
    assert not holder_ended(tmp_path)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    lock.write_text(f"{child} on {host}")
    assert holder_ended(tmp_path)
    lock.write_text(f"{child} on elsewhere")
    assert not holder_ended(tmp_path)
    lock.write_text(f"no number on {host}")
    assert not holder_ended(tmp_path)


def test_a_run_is_asked_to_stop(tmp_path):
    assert stop_asked(tmp_path) is None
    ask_to_stop(tmp_path, "enough")
    assert stop_asked(tmp_path) == "enough"
    (tmp_path / "stop").write_text("{")
    assert stop_asked(tmp_path) is not None
    clear_stop(tmp_path)
    clear_stop(tmp_path)
    assert stop_asked(tmp_path) is None


def edited(tmp_path, shard=None, **values):
    """Return the store after its manifest was edited, and its hash made anew."""
    if not (tmp_path / "run").exists():
        Store.create(tmp_path / "run", seed=1, blocks_a_shard=1).add(0, rows_of(5))
    path = tmp_path / "run" / "manifest.json"
    content = json.loads(path.read_text()) | values
    content.pop("sha256", None)
    for entry in content["shards"].values() if shard else ():
        entry |= shard
    content["sha256"] = seal_of({k: v for k, v in content.items() if k != "sha256"})
    path.write_text(json.dumps(content))
    return Store.open(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "good", "wrong"),
    [
        ("format", [2], [0, 1, 3, 99, "2", None]),
        ("seed", [0, 2**128 - 1], [-1, 2**128, True, 0.5, "1", None]),
        ("block", [1024], [1023, 1025, 0, None]),
        ("blocks_a_shard", [1, 7], [0, -1, True, 1.0, "1", None]),
        ("quasir", ["0.1"], [1, None, []]),
        ("models", [[], [{}]], [{}, [1], "a", None]),
        ("code", [{}, {"a": "b"}], [[], "a", None]),
        ("shards_at", ["memory://x"], [1, [], {}]),
        ("stopped", ["why"], [1, []]),
        ("warnings", [[], ["a"]], ["a", [1], None]),
        ("known", [{}, {"a": 1}], [True, "1", [], 1.5]),
        ("workers", [1, 9], [0, -1, True, 1.5, "1"]),
        ("machines", [1], [0, -1, True, 1.5]),
    ],
)
def test_a_manifest_of_wrong_values_is_refused(tmp_path, name, good, wrong):
    for value in good:
        kept = getattr(edited(tmp_path, **{name: value}).manifest, name)
        assert (list(kept) if isinstance(kept, tuple) else kept) == value
    for value in wrong:
        with pytest.raises(qr.errors.StoreError, match="cannot be read"):
            edited(tmp_path, **{name: value})


@pytest.mark.parametrize(
    ("name", "good", "wrong"),
    [
        ("draws", [1, BLOCK], [0, -1, BLOCK + 1, True, 1.0, "1", None]),
        ("sha256", ["ab"], [1, None, []]),
        ("seconds", [0, 0.5, None], [-1, -0.1, True, "1", []]),
        ("file", [[1, 2], [0], None], [[-1], [True], [0.5], "1", 1]),
    ],
)
def test_a_shard_of_wrong_values_is_refused(tmp_path, name, good, wrong):
    for value in good:
        assert getattr(edited(tmp_path, {name: value}).shards[0], name) == value
    for value in wrong:
        with pytest.raises(qr.errors.StoreError, match="cannot be read"):
            edited(tmp_path, {name: value})


@pytest.mark.parametrize(
    "wrong", ["shard-0.parquet", "shard-00000", "shard--0001.parquet", "shard-x.parquet", "other"]
)
def test_a_shard_of_a_wrong_name_is_refused(tmp_path, wrong):
    entry = {"draws": 5, "sha256": "ab"}
    assert list(edited(tmp_path, shards={"shard-100000.parquet": entry}).shards) == [100_000]
    with pytest.raises(qr.errors.StoreError, match="cannot be read"):
        edited(tmp_path, shards={wrong: entry})
