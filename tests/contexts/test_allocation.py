"""Which context gets how many draws."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import quasir as qr
from quasir.errors import InputError
from quasir.runs.contexts import Need, allocated, most_draws, need_of, pilot, shared_out
from quasir.store.store import Piece, layout


def test_a_pilot_is_equal():
    assert pilot(1000, [True, True, False, True]) == [83, 83, 0, 83]
    assert pilot(3, [True, True, True]) == [1, 1, 1]
    with pytest.raises(InputError, match="too few"):
        pilot(2, [True, True, True])


def test_the_cheapest_needs_come_first():
    needs = [Need(1000, False), Need(60, False), Need(90, False), None, Need(50, True)]
    assert allocated([50, 50, 50, 0, 50], needs, 260) == [60, 60, 90, 0, 50]
    assert allocated([50, 50, 50, 0, 50], needs, 640) == [220, 60, 90, 0, 50]
    assert allocated([50, 50, 50, 0, 50], needs, 200) is None


def test_a_hopeless_context_does_not_get_what_the_others_leave():
    """Of ten contexts, nine are served: the tenth gets two shares of the 10,000 draws."""
    counts = [250] * 10
    while True:
        needs = [Need(250, True)] * 9 + [Need(16 * counts[-1], False, guess=True)]
        after = allocated(counts, needs, 10_000)
        if after is None:
            break
        counts = after
    assert counts[-1] == most_draws(10_000, 10) == 2000
    assert sum(counts) == 10_000
    assert max(counts[:-1]) - min(counts[:-1]) <= 2  # the remainders of two rounds


counts = st.lists(
    st.tuples(st.integers(1, 500), st.integers(0, 5000), st.booleans(), st.booleans()), min_size=1
)


@given(counts, st.integers(0, 20_000))
@example([(1, 0, False, False)] * 7 + [(1, 17, False, True)], 96)  # its guess is met in round one
def test_no_draw_is_lost_and_none_is_taken_back(rows, more):
    have = [n for n, *_ in rows]
    needs = [Need(max(need, n), met, guess) for n, need, met, guess in rows]
    budget = sum(have) + more
    totals, rounds = have, 0
    while (after := allocated(totals, needs, budget)) is not None:
        assert all(a <= b for a, b in zip(totals, after, strict=True))
        totals, rounds = after, rounds + 1
    assert sum(totals) == budget
    assert rounds <= 3
    most = most_draws(budget, len(rows))
    for n, need, before in zip(totals, needs, have, strict=True):
        if need.guess and not need.met:
            assert n <= max(most, before)


@given(st.integers(0, 1000), st.integers(1, 50))
def test_shares(total, shares):
    made = shared_out(total, shares)
    assert sum(made) == total
    assert max(made) - min(made) <= 1


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=3, max_size=3), max_size=4), st.integers(1, 30)
)
def test_a_layout_holds_every_draw_once(steps, size):
    rounds, so_far = [], [0, 0, 0]
    for step in steps:
        so_far = [a + b for a, b in zip(so_far, step, strict=True)]
        rounds.append(so_far)
    shards = layout(rounds, size)
    seen = [(p.context, i) for shard in shards for p in shard for i in range(p.start, p.stop)]
    assert sorted(seen) == [(c, i) for c in range(3) for i in range(so_far[c])]
    for context in range(3):
        own = [i for c, i in seen if c == context]
        assert own == sorted(own)
    assert all(0 < sum(p.stop - p.start for p in shard) <= size for shard in shards)
    assert all(isinstance(piece, Piece) for shard in shards for piece in shard)


def draws(p, q, n=400):
    return qr.draw(qr.Table(p), qr.Table(q), n, seed=0)


@pytest.mark.parametrize(
    "constraint",
    [
        {"tvd": 0.05},
        {"tvd": 0.2, "confidence": 0.9},
        {"acceptance_rate": 0.2},
        {"beta": 1.0},
        {"log_beta": 0.0},
        {"kl": 0.01},
        {"tvd_bound": 0.5},
    ],
)
def test_needs_by_every_constraint(constraint):
    made = draws({"a": 0.5, "b": 0.5}, {"a": 0.3, "b": 0.7})
    few, many = need_of(made, constraint, 10), need_of(made, constraint, 10_000)
    assert few.met
    assert not many.met
    rate = qr.tradeoff(made).at(**constraint).acceptance_rate.value
    assert many.draws == pytest.approx(1.1 * 10_000 / rate, rel=0.01)


def test_a_context_without_a_possible_draw_needs_many():
    never = qr.Draws.from_arrays(log_p=[-float("inf")] * 50, log_q=[-1.0] * 50)
    assert need_of(never, {"tvd": 0.1}, 1) == Need(800, False, guess=True)
