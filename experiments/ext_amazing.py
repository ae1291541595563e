"""Five samplers on texts with "amazing" (`tab:ext_amazing`, appendix G), and informed walks.

An informed walk inserts and replaces with the word itself now and then (a point mass, `boost`).
The editor knows biographies: it is the one masked model that is built in. Its tokens are not the
base's, as BERT's are not GPT-2's in the paper, so a walk is over its tokens.
"""

from __future__ import annotations

import numpy as np

import quasir as qr
from experiments.extra import HALF
from experiments.results import Place, Result, Row, main
from experiments.samplers import compared, rows_of, said_of_walks
from experiments.words import MODEL, TOKENS, guide_of, guided
from quasir.compare.sampler_table import samplers_markdown

WORD, EDITOR = "amazing", "quasir/biographies-masked"
SAMPLERS = ("qrs", "imh", "imh-reset", "rwmh", "rwmh-reset")
RATES = (1e-1, 1e-3)
STEPS = 20
"""A walk has one step for so many draws of the pool."""
SAMPLES = 20
"""Samples of an informed walk."""
HEAD = ("amazing", "ppl", "self_bleu", "unique", "tvd", "kl")
TABLE = {
    "proposal": ("63.0", "62.4", "85.7", "100", "tbd", "tbd"),
    "RWMH-10 at 0.1": ("100", "-", "99.96", "47.9", "unknown", "unknown"),
    "RWMH-reset-10 at 0.1": ("61.7", "65.1", "85.3", "100", "unknown", "unknown"),
    "IMH-10 at 0.1": ("100", "-", "91.6", "62.9", "unknown", "unknown"),
    "IMH-reset-10 at 0.1": ("100", "60.4", "87.2", "100", "unknown", "unknown"),
    "QRS at 0.1": ("100", "62.8", "86.9", "100", "0.17", "0.27"),
    "RWMH-1000 at 0.001": ("71.2", "-", "97.3", "59.2", "unknown", "unknown"),
    "RWMH-reset-1000 at 0.001": ("62.9", "63.7", "85.5", "100", "unknown", "unknown"),
    "IMH-1000 at 0.001": ("100", "-", "87.3", "99.6", "unknown", "unknown"),
    "IMH-reset-1000 at 0.001": ("100", "64.0", "87.1", "100", "unknown", "unknown"),
    "QRS at 0.001": ("100", "64.1", "86.6", "100", "0.01", "0.01"),
}
INFORMED = {
    (False, 0.01): "RWMH-1000: 100 % amazing, Self-BLEU-5 100, 0.1 % unique of 1,000 samples",
    (False, 0.1): "RWMH-1000: tbd",
    (True, 0.01): "RWMH-reset-1000: 64.1 % amazing, Self-BLEU-5 85.8, 100 % unique of 1,000",
    (True, 0.1): "RWMH-reset-1000: 63.7 % amazing, Self-BLEU-5 85.5, 100 % unique of 1,000",
}
"""Whether each sample has its own chain, and the weight of the word -> the paper's row."""


def run(place: Place) -> Result:
    """Replay the pool through the samplers, and walk with and without the word."""
    steps = max(100, min(100_000, place.draws // STEPS))
    folder = guided(place, WORD, max(1, place.draws // HALF))
    found = compared(folder, SAMPLERS, RATES, steps, EDITOR)
    stated = {name: dict(zip(HEAD, row, strict=True)) for name, row in TABLE.items()}
    walks, unique = informed(place, steps)
    return Result(
        title='Five samplers on "amazing" (`tab:ext_amazing`)',
        rows=[*rows_of(found.rows, [WORD], stated=stated), *walks],
        draws={folder.name: found.pool_size, "steps of each walk at most": steps},
        verdict=(
            "As in the paper, QRS and IMH always have the word, and IMH repeats itself. "
            f"{said_of_walks(found.rows)} With a point mass on the word, {unique:.0f} % of the "
            f"{SAMPLES} samples of our walk are unique, one in {steps // SAMPLES} steps; the "
            "paper's walk, with 1,000 samples, one in 1,000 steps, stayed at one text. "
            "Our walks begin where P > 0 and cannot leave it, so they "
            "have the word always; the paper's begin anywhere. Perplexity and Self-BLEU cannot be "
            "compared: models and lengths differ, and the paper's Self-BLEU is over characters. "
            "Our proposal is a guide, the paper's is tuned by DPG. TVD and KL are of one run, "
            "which has a part of the draws; the extra figure has all of them, and tighter bounds."
        ),
        tables={"All columns": samplers_markdown(found, "").split("\n", 2)[2]},
    )


def informed(place: Place, steps: int) -> tuple[list[Row], float]:
    """Walk with a point mass on the word; chains start at draws with a guide.

    Returns the rows, and how many per cent of the samples of the first walk are unique.
    """
    base = qr.text.CausalLM(MODEL, max_tokens=TOKENS)
    target = base * qr.features.words([WORD], name=WORD)
    guide, _ = guide_of(place, WORD)
    token, thin = f" {WORD}", max(1, steps // SAMPLES)
    rows: list[Row] = []
    unique: list[float] = []
    for (reset, weight), stated in INFORMED.items():
        walk = qr.RWMH(
            target,
            base.guided(guide),
            editor_with(token),
            max_tokens=2 * TOKENS,
            boost={token: weight},
            **({"reset": thin} if reset else {"thin": thin}),
        )
        samples = walk.sample(SAMPLES, seed=0)
        unique.append(100 * samples.distinct / len(samples))
        having = target.log_score(samples.items) > -np.inf
        rows.append(
            (
                f"RWMH{'-reset' if reset else ''}-{thin} + {weight:g} δ({WORD!r})",
                stated,
                f"{100 * having.mean():.0f} % {WORD}, Self-BLEU-5 "
                f"{100 * qr.metrics.self_bleu(samples):.3g}, "
                f"{unique[-1]:.0f} % unique of {SAMPLES} samples",
            )
        )
    return rows, unique[0]


def editor_with(word: str) -> qr.text.MaskedLM:
    """Return the editor with one more token: a word that it had in pieces, as their mean.

    An edit inserts one token. The chain has the right law with any editor.
    """
    editor = qr.text.MaskedLM(EDITOR)
    pieces = editor.tokenizer(word, add_special_tokens=False).input_ids
    editor.tokenizer.add_tokens([word])
    editor.model.resize_token_embeddings(len(editor.tokenizer), mean_resizing=False)
    vectors = editor.model.get_input_embeddings().weight.data
    vectors[-1] = vectors[pieces].mean(dim=0)
    return qr.text.MaskedLM(model=editor.model, tokenizer=editor.tokenizer)


if __name__ == "__main__":
    main("ext_amazing", run, __doc__)
