"""Masked and boosted decoding of SmolLM2-135M-Instruct against plain decoding, in one process.

    python -m benchmarks.smollm2

`quasir models get smollm2` fetches the model. Plain and guided draws alternate, and the shortest
CPU time of each counts. Nearly all texts have as many tokens as are allowed, so that both do the
same work.
"""

import argparse
import time
from importlib.util import find_spec

import numpy as np
import torch

import quasir as qr
from benchmarks import show

REGEX = r"[^0-9]*[0-9]{4}[^0-9]*"
"""Texts with one year, as in `benchmarks.guides`."""


def rows(model, n, tokens, times):
    base = qr.text.CausalLM(model, max_tokens=tokens, device="cpu")
    cases = {
        "masked (a regex)": base.guided(qr.guides.regex(REGEX, complete=False)),
        "boosted, share 0.1": base.guided(qr.guides.boost({"amazing": 300.0}), 0.1),
    }
    for name, q in cases.items():
        plain, guided = in_turn(base, q, n, times)
        detail = f"{n / guided:.2f} against {n / plain:.2f} draws of {tokens} tokens a CPU second"
        yield f"SmolLM2: {name}, draws/s against plain", plain / guided, ">= 0.9", detail
    yield from precision_rows(model, n, tokens)


def precision_rows(model, n, tokens):
    """Compare other precisions with float32: draws a CPU second, and how well log_prob agrees."""
    ways = {"float32": {}, "bfloat16": {"dtype": "bfloat16"}}
    if find_spec("bitsandbytes"):
        ways |= {bits: {"quantization": bits} for bits in ("8bit", "4bit")}
    exact = 0.0
    for way, settings in ways.items():
        base = qr.text.CausalLM(model, max_tokens=tokens, device="cpu", **settings)
        base.sample(2, np.random.default_rng(0))
        start = time.process_time()
        items, log_q = base.sample(n, np.random.default_rng(0))
        seconds = time.process_time() - start
        exact = exact or seconds
        off = np.abs(base.log_prob(items) - log_q)
        detail = f"{n / seconds:.2f} draws of {tokens} tokens a CPU second; log_prob off by "
        detail += f"{off.mean():.1e} nats per text, at most {off.max():.1e}"
        yield f"SmolLM2: {way}, draws/s against float32", exact / seconds, ">= 0", detail


def in_turn(base, q, n, times):
    """Return the shortest CPU times of n draws of both, alternating."""
    q.sample(2, np.random.default_rng(0))  # the machine is made once
    seconds = [(spent(base, n), spent(q, n)) for _ in range(times)]
    return tuple(map(min, zip(*seconds, strict=True)))


def spent(proposal, n):
    start = time.process_time()
    proposal.sample(n, np.random.default_rng(0))
    return time.process_time() - start


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="quasir/smollm2", help="a name or a folder")
    parser.add_argument("--draws", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    show.table(rows(given.model, given.draws, given.tokens, given.times))
