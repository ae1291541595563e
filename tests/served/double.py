"""A server of a small model, spoken to as vLLM is, that can lie or fail on request."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import numpy as np

WORDS = ("</s>", "a", "b", "c", "d", "<s>")
END, START = 0, 5
NEXT = np.array(
    [
        [0.05, 0.40, 0.30, 0.15, 0.10, 0.0],
        [0.20, 0.10, 0.40, 0.20, 0.10, 0.0],
        [0.30, 0.25, 0.05, 0.25, 0.15, 0.0],
        [0.25, 0.30, 0.20, 0.05, 0.20, 0.0],
        [0.10, 0.20, 0.30, 0.30, 0.10, 0.0],
        [0.05, 0.35, 0.30, 0.20, 0.10, 0.0],
    ]
)
"""Row: the last token; column: the next one."""


def log_a(prefix, ids, limit):
    """Return the log-probability of given ids, with the end if they are fewer than the limit."""
    whole = [*ids] if len(ids) >= limit else [*ids, END]
    steps = zip([prefix[-1], *whole[:-1]], whole, strict=True)
    return float(sum(np.log(NEXT[a, b]) for a, b in steps))


def warped(row, temperature=1.0, top_k=0, top_p=1.0, logit_bias=None):
    """Return the probabilities that the server samples from."""
    with np.errstate(divide="ignore"):
        logits = np.log(row)
    for token, bias in (logit_bias or {}).items():
        logits[int(token)] += bias
    p = np.exp(logits / temperature)
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if top_k:
        p[order[top_k:]] = 0.0
        p /= p.sum()
    kept = np.searchsorted(np.cumsum(p[order]), top_p - 1e-12) + 1
    p[order[kept:]] = 0.0
    return p / p.sum()


class Double:
    """What the server does; tests change its attributes while it runs."""

    def __init__(self, **changes):
        self.owner, self.models, self.words = "vllm", ["small"], WORDS
        self.lies = set()  # raw, colder, no_ids, no_end, no_seed, scores
        self.failures = []  # what happens to the next requests for completions
        self.seeds, self.headers, self.masks = [], [], []
        self.noise = 0.0
        self.closed, self.delay = False, 0.0
        self.most_at_once = self.at_once = 0
        self.lock = threading.Lock()
        vars(self).update(changes)

    def get(self, path):
        if path == "/v1/models":
            listed = [{"id": m, "owned_by": self.owner, "max_model_len": 64} for m in self.models]
            return {"data": listed}
        return {"version": "0.0"} if path == "/version" else None

    def post(self, path, body):
        if path == "/tokenize":
            if "messages" in body:
                return {"tokens": [START, *(1 + len(m["content"]) % 4 for m in body["messages"])]}
            ids, text = [], body["prompt"]
            while text:
                word = next((w for w in self.words if text.startswith(w)), text[0])
                ids += [self.words.index(word)] if word in self.words else []
                text = text[len(word) :]
            return {"tokens": [START] * body.get("add_special_tokens", False) + ids}
        if path == "/detokenize":
            return {"prompt": "".join(WORDS[i] for i in body["tokens"])}
        if path == "/v1/completions":
            return self.score(body) if body.get("echo") else self.draw(body)
        return None

    def score(self, body):
        ids = body["prompt"]
        found = [None, *(float(np.log(NEXT[a, b])) for a, b in pairwise(ids))]
        if "scores" in self.lies:
            found = [None, *(x - 1.0 for x in found[1:])]
        if self.noise:
            found[-1] += self.noise * (1 if sum(ids) % 2 else -1)
        return {"choices": [{"logprobs": {"token_logprobs": found}}]}

    def draw(self, body):
        time.sleep(self.delay)
        self.seeds.append(body["seed"])
        self.masks.append(body.get("structured_outputs"))
        rng = np.random.default_rng(body["seed"])
        settings = {
            k: body[k] for k in ("temperature", "top_k", "top_p", "logit_bias") if k in body
        }
        last, ids, log_probs = body["prompt"][-1], [], []
        while len(ids) < body["max_tokens"]:
            p = warped(NEXT[last].copy(), **settings)
            drawn = p**2 / (p**2).sum() if "colder" in self.lies else p
            last = int(rng.choice(len(p), p=drawn))
            if "no_seed" in self.lies and not ids and not body.get("logit_bias"):
                last = 1 + len(self.seeds) % 4  # no two requests that follow each other are alike
            ids.append(last)
            reported = NEXT[[*body["prompt"], *ids][-2]] if "raw" in self.lies else p
            log_probs.append(float(np.log(reported[last])))
            if last == END:
                break
        ended = ids[-1] == END
        if "no_end" in self.lies and ended:
            log_probs = log_probs[:-1]
        choice = {
            "token_ids": None if "no_ids" in self.lies else ids,
            "logprobs": {"token_logprobs": log_probs},
            "finish_reason": "stop" if ended else "length",
        }
        return {"choices": [choice]}


def handler(double):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # one packet for each answer
        disable_nagle_algorithm = True

        def do_GET(self):
            self.answer(double.get(self.path))

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with double.lock:
                double.headers.append(dict(self.headers))
                double.at_once += 1
                double.most_at_once = max(double.most_at_once, double.at_once)
                failing = self.path == "/v1/completions" and double.failures
                failure = double.failures.pop(0) if failing else None
                failure = "gone" if double.closed else failure
            try:
                self.fail(failure) if failure else self.answer(double.post(self.path, body))
            finally:
                with double.lock:
                    double.at_once -= 1

        def fail(self, failure):
            if failure == "half":
                self.answer(None, 200, b'{"choices": [{"token_ids": [1, 2')
            elif failure == "gone":
                self.close_connection = True
            elif failure == "slow":
                time.sleep(0.6)
                self.close_connection = True
            else:
                self.answer({"error": {"message": "no room"}}, failure)

        def answer(self, found, status=200, raw=None):
            status = 404 if found is None and raw is None else status
            data = json.dumps(found).encode() if raw is None else raw
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass


@contextmanager
def serving(double, port=0):
    """Run the double; yield its address."""
    double.closed = False
    server = _Server(("127.0.0.1", port), handler(double))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        double.closed = True  # connections that are open answer no more
        server.shutdown()
        server.server_close()
        thread.join()
