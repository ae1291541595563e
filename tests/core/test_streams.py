"""Every stream is its own: keys, the source code, and what stands on them."""

import ast
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import quasir as qr
from quasir.core.streams import BLOCK, DrawStreams, Purpose, derived_seed, stream
from tests.shared_streams import SharedStreams

SOURCE = Path(qr.__file__).parent
FAIR = qr.Table({0: 0.5, 1: 0.5})


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
