"""Keys of streams are part of the format: a stored run goes on with the numbers it began with."""

import numpy as np
import pytest

import quasir as qr
from quasir.core.streams import (
    BLOCK,
    LARGEST_SEED,
    DrawStreams,
    Purpose,
    derived_seed,
    log_uniforms,
    root_seed,
    stream,
)

KEYS = {
    "PROPOSE": 2147483648,
    "ACCEPT": 2147483649,
    "FIT": 2147483650,
    "CHECK": 2147483651,
    "NORMALISE": 2147483652,
    "WALK": 2147483653,
    "RESAMPLE": 2147483654,
    "COMPARE": 2147483655,
    "TUNE_DRAW": 2147483656,
    "TUNE_THIN": 2147483657,
    "TUNE_BATCH": 2147483658,
    "TUNE_DROPOUT": 2147483659,
    "TUNE_INITIAL": 2147483660,
    "SUPPORT": 2147483661,
    "GUIDE": 2147483662,
    "CONTEXT": 2147483663,
    "LEARNED": 2147483664,
}


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


@pytest.mark.parametrize("n", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_log_u_of_the_first_draws(n):
    found = log_uniforms(3, n)
    assert len(found) == n
    whole = np.concatenate([DrawStreams(3).log_u(block) for block in range(4)])
    np.testing.assert_array_equal(found, whole[:n])


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


def test_the_first_place_is_the_default():
    assert derived_seed(5, Purpose.FIT) == derived_seed(5, Purpose.FIT, 0, 0)
    assert derived_seed(5, Purpose.FIT, 3) == derived_seed(5, Purpose.FIT, 3, 0)
    assert stream(5, Purpose.WALK).random() == stream(5, Purpose.WALK, 0, 0).random()
    assert stream(5, Purpose.WALK, 3).random() == stream(5, Purpose.WALK, 3, 0).random()
