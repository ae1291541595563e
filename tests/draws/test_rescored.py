"""A proposal whose log_prob is not what it draws with is noticed at the first draws."""

import numpy as np
import pytest

import quasir as qr

TABLE = qr.Table({"a": 0.6, "b": 0.3, "c": 0.1})


class Shifted(qr.Table):
    """Scores otherwise than it draws."""

    def log_prob(self, items):
        return super().log_prob(items) - 0.01


class TwiceAsHot(qr.Table):
    """Draws at another temperature than it scores."""

    def sample(self, n, rng):
        items, _ = super().sample(n, rng)
        return items, 2 * super().log_prob(items) + 0.2


@pytest.mark.parametrize("kind", [Shifted, TwiceAsHot])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_difference_is_an_error(kind, mixed):
    wrong = kind({"a": 0.6, "b": 0.3, "c": 0.1})
    proposal = qr.Mixture([wrong, TABLE]) if mixed else wrong
    with pytest.raises(qr.errors.ScoreError, match="but its log_prob gives"):
        qr.draw(TABLE, proposal, 100, seed=0)
    with pytest.raises(qr.errors.ScoreError, match="but its log_prob gives"):
        qr.QRS(TABLE, proposal, 2.0).sample(5, seed=0)


def test_a_right_one_is_not_disturbed():
    right = qr.Mixture([qr.Table({"a": 1, "b": 1, "c": 2}), TABLE])
    assert len(qr.draw(TABLE, right, 1000, seed=0)) == 1000
    assert len(qr.draw(TABLE, right, 1, seed=0)) == 1


def test_rounding_of_a_network_is_no_difference():
    class Network(qr.Table):
        tokenizer = object()

        def log_prob(self, items):
            noise = np.random.default_rng(0).normal(size=len(items), scale=0.01)
            return super().log_prob(items) + noise - 0.05

    assert len(qr.draw(TABLE, Network({"a": 0.6, "b": 0.3, "c": 0.1}), 100, seed=0)) == 100
