"""Runs over contexts with a language model: mixed batches, guides, long contexts."""

from pathlib import Path

import numpy as np
import pytest

import quasir as qr
from quasir.core.streams import BLOCK, DrawStreams
from quasir.draws.draw_blocks import draw_blocks
from quasir.errors import InputError
from quasir.recipes import from_dict
from quasir.recipes.placeholders import read_contexts
from quasir.runs.contexts import Builder, Entry
from quasir.runs.draw_shards import draw_together
from quasir.store.store import Piece

pytest.importorskip("torch")

CONTEXTS = ["was born in", "She", "He was an English", "is"]
BASE = {"model": "quasir/biographies", "prompt": "{text}"}
LONG = {"contains": "e"}


def parts_of(recipe, contexts=CONTEXTS):
    read = from_dict({"base": BASE, "max_tokens": 6, "features": {"e": LONG}} | recipe)
    builder = Builder(read, Path())
    entries = [Entry.of(context, 0) for context in read_contexts(contexts)]
    return builder, entries


@pytest.mark.parametrize(
    "recipe",
    [
        {},
        {"proposal": {"temperature": 1.5}},
        {"proposal": {"guide": {"boost": {"scientist": 5.0}}, "share": 0.3}},
        {"proposal": {"guide": {"boost": {"{text}": 5.0}}, "share": 0.3}},
        {"proposal": {"mixture": [{"temperature": 1.2}, {"model": "quasir/biographies"}]}},
    ],
)
def test_mixed_batches_draw_what_each_context_draws_alone(recipe):
    builder, entries = parts_of(recipe)
    pieces = [Piece(0, 0, 9), Piece(1, 3, 12), Piece(2, 1020, 1030), Piece(3, 0, 5)]
    made = draw_together(builder, entries, pieces)
    wanted = [(0, 0, 0, 9), (1, 0, 3, 12), (2, 0, 1020, 1024), (2, 1, 0, 6), (3, 0, 0, 5)]
    assert len(made) == len(wanted)
    for draws, (place, block, start, stop) in zip(made, wanted, strict=True):
        target, proposal = builder.pair(entries[place])
        streams = DrawStreams(entries[place].seed)
        whole = draw_blocks(target, proposal, streams, block, 1, block * BLOCK + stop)
        alone = whole.take(np.arange(start, stop))
        assert [x.token_ids for x in draws.items] == [x.token_ids for x in alone.items]
        for name in ("log_q", "log_p", "log_base"):
            np.testing.assert_allclose(getattr(draws, name), getattr(alone, name), atol=1e-3)
        np.testing.assert_array_equal(draws.log_u, alone.log_u)


def test_a_run_with_a_model(tmp_path):
    recipe = {
        "base": BASE,
        "features": {"e": LONG},
        "want": {"e": 1},
        "max_tokens": 6,
        "choose": {"tvd": 0.1, "confidence": 0.9},
        "samples": 8,
    }
    run = qr.run(recipe, out=tmp_path / "r", contexts=CONTEXTS, draws=400, progress=False)
    assert run.certificate.served == 4
    assert sum(len(one.draws) for one in run) == 400
    assert all("e" in x.text for one in run for x in one.samples.items)
    assert run[0].fields == {"text": "was born in"}
    again = qr.run(recipe, out=tmp_path / "s", contexts=CONTEXTS, draws=400, progress=False)
    assert run.store.rounds == again.store.rounds
    assert {n: s.sha256 for n, s in run.store.shards.items()} == {
        n: s.sha256 for n, s in again.store.shards.items()
    }


def test_a_context_longer_than_the_model_names_its_line(tmp_path):
    path = tmp_path / "c.txt"
    path.write_text("She\n" + "was born in " * 600 + "\n")
    with pytest.raises(InputError, match=r"c.txt, line 2: max_tokens = 6, after \d+ tokens"):
        qr.run(
            {"base": BASE, "max_tokens": 6, "choose": {"beta": 1}},
            out=tmp_path / "r",
            contexts=path,
            progress=False,
        )
