"""What a manifest says is true; what no manifest can say is refused in words."""

import copy
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import quasir as qr
from quasir.core.streams import BLOCK
from quasir.store import Store
from quasir.store.manifest import seal_of
from quasir.store.store import Rows


def rows_of(n, items=None, **columns):
    numbers = {"log_q": np.full(n, -1.0), "log_p": np.full(n, -2.0), "log_u": np.full(n, -0.5)}
    return Rows(numbers | columns, items)


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
        ("block", [1024], [512, 1025, 0, None]),
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


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**200),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
    st.just("x" * 5000),
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    flags = {"even": np.arange(3000) % 2 == 0}
    qr.Draws.from_arrays(np.zeros(3000), np.full(3000, -1.0), features=flags).save(folder)
    return folder


@pytest.fixture(scope="module")
def content(saved):
    return json.loads((saved / "manifest.json").read_text())


def places(value, path=()):
    """Yield the path of every value inside a document."""
    yield path
    children = value.items() if isinstance(value, dict) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def changed(content, path, how, odd):
    """Return the document with one value replaced, removed or added beside."""
    if not path:
        return odd
    made = copy.deepcopy(content)
    parent = made
    for key in path[:-1]:
        parent = parent[key]
    if how == "remove":
        del parent[path[-1]]
    elif how == "add":
        parent[str(odd)[:20]] = odd
    else:
        parent[path[-1]] = odd
    return made


def look(folder):
    """Do with a run what a user does."""
    store = Store.open(folder)
    qr.Draws.load(store)
    qr.tradeoff(store, stream=True)


def refusal(folder):
    """Return why a run is refused, or None where it is not."""
    try:
        look(folder)
    except qr.errors.QuasirError as error:
        return str(error)
    return None


def check(saved, content, data, sealed):
    path = data.draw(st.sampled_from(list(places(content))))
    how = data.draw(st.sampled_from(["replace", "remove", "add"]))
    made = changed(content, path, how, data.draw(ODD))
    if sealed and isinstance(made, dict):
        made.pop("sha256", None)
        made["sha256"] = seal_of(made)
    before = (saved / "manifest.json").read_text()
    (saved / "manifest.json").write_text(json.dumps(made))
    try:
        message = refusal(saved)
    finally:
        (saved / "manifest.json").write_text(before)
    assert message is None or 0 < len(message) < 5000


QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@settings(max_examples=100, **QUIET)
@given(st.data())
def test_an_edited_manifest(saved, content, data):
    check(saved, content, data, sealed=False)


@settings(max_examples=200, **QUIET)
@given(st.data())
def test_a_manifest_that_was_edited_and_sealed_again(saved, content, data):
    check(saved, content, data, sealed=True)


@pytest.mark.slow
@settings(max_examples=2000, **QUIET)
@given(st.data())
def test_many_manifests(saved, content, data):
    check(saved, content, data, sealed=True)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '"x"', "{}", "[" * 100_000, "\x00", '{"format": 1e999}']
)
def test_what_is_no_manifest(saved, tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(qr.errors.StoreError, match="cannot be read"):
        Store.open(tmp_path)


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(qr.errors.StoreError, match="cannot be read"):
        Store.open(tmp_path)
