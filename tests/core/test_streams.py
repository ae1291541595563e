"""Every stream is its own, and its key is part of the format: a stored run goes on as it began."""

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quasir as qr
from quasir.core.streams import (
    BLOCK,
    LARGEST_SEED,
    DrawStreams,
    Purpose,
    derived_seed,
    root_seed,
    stream,
)
from tests.shared_streams import SharedStreams

SOURCE = Path(qr.__file__).parent
NAMES = (
    *("PROPOSE", "ACCEPT", "FIT", "CHECK", "NORMALISE", "WALK", "RESAMPLE", "COMPARE"),
    *("TUNE_DRAW", "TUNE_THIN", "TUNE_BATCH", "TUNE_DROPOUT", "TUNE_INITIAL"),
    *("SUPPORT", "GUIDE", "CONTEXT", "LEARNED", "SEARCH_DRAW", "SEARCH_TRAIN", "MISMATCH"),
)
KEYS = {name: 2147483648 + i for i, name in enumerate(NAMES)}


def test_no_purpose_has_changed_its_number():
    assert {purpose.name: int(purpose) for purpose in Purpose if purpose.name in KEYS} == KEYS
    assert len({int(purpose) for purpose in Purpose}) == len(Purpose)
    assert min(Purpose) == 2**31


@pytest.mark.parametrize("seed", [0, 7, LARGEST_SEED])
@pytest.mark.parametrize(("index", "part"), [(0, 0), (3, 0), (0, 2), (2**32 - 1, 2**32 - 1)])
def test_the_key_is_purpose_index_and_part(seed, index, part):
    sequence = np.random.SeedSequence(seed, spawn_key=(KEYS["WALK"], index, part))
    expected = np.random.default_rng(sequence).random(5)
    np.testing.assert_array_equal(stream(seed, Purpose.WALK, index, part).random(5), expected)
    words = sequence.generate_state(4, np.uint32).tolist()
    assert derived_seed(seed, Purpose.WALK, index, part) == sum(
        word * 2 ** (32 * i) for i, word in enumerate(words)
    )


@pytest.mark.parametrize("place", [(-1, 0), (0, -1), (2**32, 0), (0, 2**32)])
def test_places_that_would_run_into_another_key_are_refused(place):
    with pytest.raises(qr.errors.InputError, match="places go from 0"):
        stream(0, Purpose.WALK, *place)


@pytest.mark.parametrize("block", [0, 1, 5])
def test_the_uniforms_of_a_block_are_in_the_unit_interval(block):
    log_u = DrawStreams(3).log_u(block)
    assert len(log_u) == BLOCK == 1024
    assert (log_u < 0).all()
    assert np.exp(log_u).mean() == pytest.approx(0.5, abs=6 / np.sqrt(12 * BLOCK))
    sequence = np.random.SeedSequence(3, spawn_key=(KEYS["ACCEPT"], block, 0))
    np.testing.assert_array_equal(
        log_u, -np.random.default_rng(sequence).standard_exponential(BLOCK)
    )


def test_seeds_from_0_to_four_words():
    for seed in (0, 1, 2**128 - 1, np.int64(5)):
        assert root_seed(seed) == int(seed)
        assert type(root_seed(seed)) is int
    for wrong in (-1, 2**128, 2**128 + 1, 1.0, 0.5, True, False, "1"):
        with pytest.raises(qr.errors.InputError, match="seed is"):
            root_seed(wrong)


def test_a_seed_from_a_generator_has_128_of_its_bits():
    expected = int.from_bytes(np.random.default_rng(4).bytes(16), "little")
    assert root_seed(np.random.default_rng(4)) == expected
    assert root_seed(None) != root_seed(None)


def state(generator):
    """Return the whole state of a generator, as something that can be compared."""
    inner = generator.bit_generator.state["state"]
    return inner["state"], inner["inc"]


def family(generator):
    """Return a generator's state, its children's and its grandchildren's."""
    found = [state(generator)]
    for child in generator.spawn(3):
        found.append(state(child))
        found += [state(grandchild) for grandchild in child.spawn(2)]
    return found


def families(seeds, places, make):
    return [s for seed in seeds for place in places for s in family(make(seed, place))]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2**128 - 1), min_size=1, max_size=3, unique=True),
    st.lists(
        st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
        min_size=1,
        max_size=3,
        unique=True,
    ),
)
def test_all_streams_and_what_is_spawned_from_them_differ(seeds, places):
    found = [
        s
        for purpose in Purpose
        for s in families(seeds, places, lambda seed, at, p=purpose: stream(seed, p, *at))
    ]
    assert len(set(found)) == len(found) == 10 * len(Purpose) * len(seeds) * len(places)
    derived = {derived_seed(seed, p, *at) for seed in seeds for p in Purpose for at in places}
    assert len(derived) == len(Purpose) * len(seeds) * len(places)


def test_small_seeds_and_places_where_numbers_meet_most_easily():
    """Purposes, seeds, places and children are all small numbers in keys that are cut in words."""
    seeds = [0, 1, 2, 2**31, 2**31 + 1, 2**32, 2**127]
    places = [(i, j) for i in (0, 1, 2, 2**31, 2**32 - 1) for j in (0, 1, 2**31)]
    found = [
        s
        for purpose in Purpose
        for s in families(seeds, places, lambda seed, at, p=purpose: stream(seed, p, *at))
    ]
    assert len(set(found)) == len(found)
    users = [s for seed in seeds for s in family(np.random.default_rng(seed))]
    assert not set(users) & set(found)
    children = families(seeds, range(4), lambda seed, b: SharedStreams(seed).propose(b))
    assert not set(children) & set(found)


def test_keys_without_a_purpose_meet_the_children_of_a_generator():
    """The property above can fail: with keys that name no purpose."""
    child = SharedStreams(5).propose(3).spawn(1)[0]
    log_u = SharedStreams(5).log_u(3)
    np.testing.assert_array_equal(log_u, -child.standard_exponential(BLOCK))
    child = DrawStreams(5).propose(3).spawn(1)[0]
    assert not np.isin(DrawStreams(5).log_u(3), -child.standard_exponential(BLOCK)).any()


def makers(path):
    """Return the calls in a file that make a seed or a generator."""
    names = {"SeedSequence", "default_rng", "RandomState", "PCG64", "Philox", "SFC64", "MT19937"}
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        called = getattr(node, "attr", None) or getattr(node, "id", None)
        if called in names and path.name != "streams.py":
            found.append(f"{path.name}:{node.lineno} {called}")
        imported = [alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")]
        if isinstance(node, ast.Import | ast.ImportFrom) and "random" in imported:
            found.append(f"{path.name}:{node.lineno} import random")
    return found


def test_no_other_module_makes_a_seed_or_a_generator():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 100
    assert [found for path in files for found in makers(path)] == []


def test_a_module_that_makes_a_generator_is_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import numpy as np\nrng = np.random.default_rng(3)\nimport random\n")
    assert set(makers(wrong)) == {"wrong.py:2 default_rng", "wrong.py:3 import random"}


class Recording:
    """A proposal that keeps what it drew."""

    prefix_stable = True

    def __init__(self):
        self.drawn = []

    def sample(self, n, rng):
        items = rng.random(n).round(12)
        self.drawn.append(set(items.tolist()))
        return items, np.zeros(n)

    def log_prob(self, items):
        return np.zeros(len(items))


def test_fitting_checking_and_certifying_do_not_share_draws():
    base = Recording()
    low = qr.Feature("low", lambda x: x < 0.3)
    target = qr.constrain(base, {low: 0.5}, n=2000, seed=0)
    fitted = set().union(*base.drawn)
    base.drawn.clear()
    draws = qr.draw(target, base, 2000, seed=0)
    drawn = set().union(*base.drawn)
    base.drawn.clear()
    target.check(2000, seed=0)
    checked = set().union(*base.drawn)
    base.drawn.clear()
    sampler = qr.QRS(target, base, beta=2.0)
    sampler.log_prob(np.array([0.5]))
    normalised = set().union(*base.drawn)
    sets = [fitted, drawn, checked, normalised]
    assert sum(map(len, sets)) == len(set().union(*sets)) > 8000
    # Where sameness is documented: QRS.sample is the accepted part of draw.
    samples = sampler.sample(50, seed=0)
    np.testing.assert_array_equal(samples.items, draws.items[draws.accepted(beta=2.0)[:50]])
