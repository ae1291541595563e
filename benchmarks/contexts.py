"""Contexts: batches that mix prompts against one prompt, and a run over a thousand contexts."""

import tempfile
import time

import numpy as np

import quasir as qr
from quasir.core.types import Request

PROMPTS, DRAWS, REPEATS, CONTEXTS = 200, 4000, 3, 1000


def rows():
    yield mixed_row()
    yield thousand_row()


def prompts(base, number, rng):
    """Return texts of 2 to 24 tokens, and one of their mean length."""
    texts, _ = base.sample(number, rng)
    lengths = rng.integers(2, 24, size=number)
    decode = base.tokenizer.decode
    written = [decode(texts.token_ids(i)[: lengths[i]].tolist()) for i in range(number)]
    sizes = np.array([len(base.varied(prompt=text).prefix) for text in written])
    return written, sizes, written[int(np.argmin(np.abs(sizes - sizes.mean())))]


def mixed_row():
    """Return tokens a second on many prompts, against one of the mean length, in turns.

    Tokens are counted, because texts after different prompts differ in length.
    """
    base = qr.text.CausalLM("quasir/biographies", max_tokens=40)
    written, sizes, middle = prompts(base, PROMPTS, np.random.default_rng(0))
    lms, one = [base.varied(prompt=text) for text in written], base.varied(prompt=middle)
    each = DRAWS // PROMPTS

    def mixed(seed):
        asked = [Request(np.random.default_rng([seed, i]), 0, each) for i in range(PROMPTS)]
        return [part.items for part in lms[0].sample_together(lms, asked)]

    def alone(seed):
        return [one.sample(DRAWS, np.random.default_rng(seed))[0]]

    mixed(0), alone(0)
    ratios, speeds = [], []
    for seed in range(1, REPEATS + 1):
        found = []
        for work in (mixed, alone):
            start = time.perf_counter()
            texts = work(seed)
            seconds = time.perf_counter() - start
            found.append(sum(int(part.lengths.sum()) for part in texts) / seconds)
        ratios.append(found[0] / found[1])
        speeds.append(found)
    ours, theirs = np.median(speeds, axis=0)
    return (
        f"tokens/s, {PROMPTS} prompts in mixed batches, of those on one prompt",
        float(np.median(ratios)),
        ">= 0.8",
        f"{ours:,.0f} on prompts of {sizes.min()} to {sizes.max()} tokens (mean "
        f"{sizes.mean():.1f}), {theirs:,.0f} on one of {len(one.prefix)}",
    )


def thousand_row():
    """Return the seconds of a run over a thousand contexts of a table, with all its files."""
    recipe = {
        "base": {"table": {f"w{i}": 1.0 + i % 7 for i in range(200)}},
        "features": {"digit": {"search": "{digit}"}, "odd": {"search": "[13579]$"}},
        "want": {"digit": 1},
        "lambda": {"odd": 0.7},
        "choose": {"tvd": 0.05, "confidence": 0.95},
        "draws": 500_000,
        "samples": 2000,
    }
    contexts = [{"digit": str(i % 10), "number": i} for i in range(CONTEXTS)]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run = qr.run(recipe, out=f"{folder}/run", contexts=contexts, progress=False)
        seconds = time.perf_counter() - start
        whole = run.certificate
    return (
        f"seconds for a run over {CONTEXTS:,} contexts of a table",
        seconds,
        "<= 60",
        f"{whole.n:,} draws, {whole.served:,} served, mean TVD at most {whole.guarantee.tvd:.3g}",
    )
