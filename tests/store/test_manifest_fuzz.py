"""Anything a manifest can be: it is opened, or refused in words, and never a traceback."""

import copy
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import quasir as qr
from quasir.store import Store
from quasir.store.manifest import seal_of

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
