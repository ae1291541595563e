"""Served models against a bare client, at the same concurrency and with the same requests.

    python -m benchmarks.served                                    # starts llama.cpp with SmolLM2
    python -m benchmarks.served --vllm .venv-vllm/bin/python       # starts vLLM with it
    python -m benchmarks.served --url http://localhost:8000 --draws 128 --concurrency 8

A bare client sends the same completions with a pool of threads and reads nothing but the answers.
Both alternate in one run, and the shortest time of each counts. `tools/vllm_environment.py` makes
the environment of vLLM.
"""

import argparse
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import numpy as np
from tests.served.real_servers import llama_server, vllm_server

import quasir as qr
from benchmarks import show

PROMPT = "The capital of France is"


def bodies(model, n):
    """Return the path and the requests that n draws send."""
    sent = []

    class Recorder:
        root = model.client.root

        def ask(self, path, body, read):
            sent.append((path, body))
            raise StopIteration

    client, model.protocol.client = model.protocol.client, Recorder()
    for uniform in np.random.default_rng(0).random(n):
        with contextlib.suppress(StopIteration):
            model._one(uniform)
    model.protocol.client = client
    return sent


def bare(model, requests):
    """Return the seconds of a bare client."""
    limits = httpx2.Limits(max_connections=model.client.concurrency)
    with httpx2.Client(timeout=600, verify=False, limits=limits) as client:
        begun = time.perf_counter()
        with ThreadPoolExecutor(model.client.concurrency) as pool:
            root = model.client.root
            answers = list(pool.map(lambda r: client.post(root + r[0], json=r[1]), requests))
        assert all(answer.status_code == 200 for answer in answers)
        return time.perf_counter() - begun


def ours(model, n):
    """Return the seconds of n draws."""
    begun = time.perf_counter()
    model.sample(n, np.random.default_rng(0))
    return time.perf_counter() - begun


def rows(url, n, tokens, concurrency, times):
    model = qr.text.Served(
        url, prompt=PROMPT, max_tokens=tokens, concurrency=concurrency, trust=True
    )
    requests = bodies(model, n)
    model.sample(4, np.random.default_rng(1))
    pairs = [(bare(model, requests), ours(model, n)) for _ in range(times)]
    other, own = map(min, zip(*pairs, strict=True))
    detail = f"{n / own:.1f} against {n / other:.1f} draws of {tokens} tokens a second"
    kind = model.protocol.kind.title
    yield (
        f"{kind}: draws/s against a bare client, {concurrency} at once",
        other / own,
        ">= 0.85",
        detail,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url")
    parser.add_argument("--vllm", metavar="PYTHON", help="interpreter of an environment with vLLM")
    parser.add_argument("--draws", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--times", type=int, default=2)
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        address = given.url
        if given.vllm is not None:
            address = stack.enter_context(vllm_server(given.vllm))
        elif address is None:
            address, _ = stack.enter_context(llama_server(slots=given.concurrency))
        show.table(rows(address, given.draws, given.tokens, given.concurrency, given.times))
