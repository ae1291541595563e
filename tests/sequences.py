"""Token sequences few enough to list, an editor from a table, and the matrix of its chain.

Also a distribution that hides its list of items.
"""

import itertools

import numpy as np

import quasir as qr
from quasir.samplers.local_chains import log_metropolis
from quasir.samplers.rwmh import MASK, Edit, log_directions, positions


class Unlisted:
    """A distribution whose items cannot be listed."""

    def __init__(self, table):
        self.table = table

    def sample(self, n, rng):
        return self.table.sample(n, rng)

    def log_prob(self, items):
        return self.table.log_prob(items)


class TableEditor:
    """Proposes a token by its two neighbours; some tokens never between some neighbours."""

    def __init__(self, vocabulary=3, seed=0, holes=True):
        rng = np.random.default_rng(seed)
        self.table = rng.dirichlet(np.ones(vocabulary), size=(vocabulary + 1, vocabulary + 1))
        if holes:
            self.table[0, 1, 2] = 0.0
        self.table /= self.table.sum(axis=-1, keepdims=True)

    def log_token_probs(self, sequences, positions):
        rows = []
        for tokens, i in zip(sequences, positions, strict=True):
            assert tokens[i] == MASK
            assert tokens.count(MASK) == 1
            left = tokens[i - 1] if i > 0 else -1
            right = tokens[i + 1] if i + 1 < len(tokens) else -1
            rows.append(self.table[left, right])
        with np.errstate(divide="ignore"):
            return np.log(rows)

    def token_id(self, word):
        return {"zero": 0, "one": 1, "two": 2}[word]


def every_sequence(vocabulary, shortest, longest):
    return [
        tokens
        for length in range(shortest, longest + 1)
        for tokens in itertools.product(range(vocabulary), repeat=length)
    ]


def weights_of(sequences, seed=0):
    """Return weights far from uniform, some of them 0."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(0.5, size=len(sequences))
    weights[rng.random(len(sequences)) < 0.1] = 0.0
    return weights


def table_of(sequences, weights):
    return qr.Table(dict(zip(sequences, weights, strict=True)))


def moves_of(sampler, tokens):
    """Yield every (edit, token) that can be proposed from a sequence, and its log_probs."""
    edits = [
        Edit(operation, i)
        for operation in sampler.limits.legal(len(tokens))
        for i in range(positions(operation, len(tokens)))
    ]
    masked = [edit.masked(tokens) for edit in edits]
    probs = sampler.token_probs(masked, np.array([edit.position for edit in edits]))
    with np.errstate(divide="ignore"):
        log_probs = np.log(probs)
    for edit, row in zip(edits, log_probs, strict=True):
        for token in [0] if edit.operation == "delete" else range(len(row)):
            yield edit, token, row


def matrix_of(sampler, sequences, weights, directions=log_directions):
    """Return the transition matrix, and check that what is proposed sums to 1."""
    place = {tokens: i for i, tokens in enumerate(sequences)}
    with np.errstate(divide="ignore"):
        log_p = np.log(weights)
    matrix = np.zeros((len(sequences), len(sequences)))
    for x, tokens in enumerate(sequences):
        if weights[x] == 0:
            continue
        proposed = 0.0
        for edit, token, row in moves_of(sampler, tokens):
            true, _ = log_directions(tokens, edit, token, row, sampler.limits)
            proposed += np.exp(true)
            if true == -np.inf:
                continue
            y = place[edit.applied(tokens, token)]
            forward, backward = directions(tokens, edit, token, row, sampler.limits)
            if y != x:
                accept = log_metropolis(log_p[x], log_p[y], forward, backward)
                matrix[x, y] += np.exp(true + accept)
        np.testing.assert_allclose(proposed, 1, atol=1e-12)
    matrix[np.diag_indices(len(sequences))] += 1 - matrix.sum(axis=1)
    return matrix
