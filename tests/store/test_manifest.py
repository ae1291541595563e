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


@pytest.mark.parametrize(("name", "wrong"), [("format", 1), ("block", 512)])
def test_another_format_is_refused(tmp_path, name, wrong):
    Store.create(tmp_path / "run", seed=1)
    path = tmp_path / "run" / "manifest.json"
    content = json.loads(path.read_text()) | {name: wrong}
    del content["sha256"]
    path.write_text(json.dumps(content | {"sha256": seal_of(content)}))
    with pytest.raises(qr.errors.StoreError, match="this version reads format"):
        Store.open(tmp_path / "run")


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


def refusal(folder):
    """Return why a run is refused, or None where it is not."""
    try:
        Store.open(folder)
    except qr.errors.QuasirError as error:
        return str(error)
    return None


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_an_edited_manifest_is_refused_in_words(saved, content, data):
    path = data.draw(st.sampled_from(list(places(content))))
    how = data.draw(st.sampled_from(["replace", "remove", "add"]))
    made = changed(content, path, how, data.draw(ODD))
    before = (saved / "manifest.json").read_text()
    (saved / "manifest.json").write_text(json.dumps(made))
    try:
        message = refusal(saved)
    finally:
        (saved / "manifest.json").write_text(before)
    assert (message is None) == (json.dumps(made) == json.dumps(content))
    assert message is None or 0 < len(message) < 5000


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'"x"', b"{}", b"[" * 100_000, b'{"format": 1e999}', b"\xff\xfe{"],
    ids=range(9),
)
def test_what_is_no_manifest(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(qr.errors.StoreError, match="cannot be read"):
        Store.open(tmp_path)
