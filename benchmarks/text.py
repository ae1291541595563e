"""Language models: the decoding loop against `generate`, and scoring against a plain pass."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

import quasir as qr
from benchmarks.show import best
from quasir.core.products import PACKED

NEW = 40
BATCHES = (64, 128, 256, 512)
BUILT_IN = Path(qr.__file__).parent / "text" / "models" / "biographies"


def rows():
    if BUILT_IN.is_dir():
        lm = qr.text.CausalLM("quasir/biographies", max_tokens=NEW, device="cpu")
        yield from compared("built-in model", lm, BUILT_IN, 1024, ">= 3", ">= 1.5")
    else:
        print("the built-in model is not there: its rows are left out")
    with tempfile.TemporaryDirectory() as folder:
        GPT2LMHeadModel(GPT2Config()).save_pretrained(folder)
        gpt2_sized_tokenizer().save_pretrained(folder)
        small = qr.text.CausalLM(folder, max_tokens=NEW, device="cpu")
        yield from compared("GPT-2 small, random", small, folder, 128, ">= 1.5", ">= 1.5")
        yield memory_row(folder)


def gpt2_sized_tokenizer():
    """Return a tokenizer of 50,257 made-up tokens whose last one ends a text, as GPT-2's does."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({f"t{i}": i for i in range(50_257)}, unk_token="t0"))
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="t50256", eos_token="t50256", pad_token="t50256"
    )


@torch.inference_mode()
def generated(lm, plain, n, batch):
    """Draw with transformers' generate and compute log-probabilities; yield the sequences."""
    start = torch.full((batch, 1), lm.prefix[0])
    for _ in range(0, n, batch):
        out = plain.generate(
            start,
            attention_mask=torch.ones_like(start),
            do_sample=True,
            top_k=0,
            max_new_tokens=NEW,
            output_scores=True,
            return_dict_in_generate=True,
            pad_token_id=lm.end,
            eos_token_id=lm.end,
        )
        scores = plain.compute_transition_scores(out.sequences, out.scores, normalize_logits=True)
        scores.sum(dim=1)
        yield out.sequences


@torch.inference_mode()
def plain_scores(plain, ids, batch):
    """Score with a forward pass and a log-softmax over all logits."""
    for start in range(0, len(ids), batch):
        part = ids[start : start + batch]
        log_probs = plain(part).logits.log_softmax(dim=-1)
        log_probs[:, :-1].gather(2, part[:, 1:, None]).sum(dim=1)


def in_turn(ours, theirs, batches, times=2):
    """Return the best time of each over the batch sizes, alternating against machine noise."""
    seconds = [
        (best(lambda b=b: ours(b), 1), best(lambda b=b: theirs(b), 1))
        for _ in range(times)
        for b in batches
    ]
    return tuple(map(min, zip(*seconds, strict=True)))


def compared(name, lm, folder, n, sampling, scoring):
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def ours(rows):
        lm._rows = rows
        lm.sample(n, np.random.default_rng(0))

    batches = [batch for batch in BATCHES if batch <= n]
    our_time, their_time = in_turn(ours, lambda b: list(generated(lm, plain, n, b)), batches)
    yield (
        f"{name}: samples/s against generate",
        their_time / our_time,
        sampling,
        f"{n / our_time:.0f} against {n / their_time:.0f} a second, each at its best batch",
    )
    texts = lm.sample(n, np.random.default_rng(0)).items
    full = np.full((n, NEW + 1), lm.end or 0)
    full[:, 0] = lm.prefix[0]
    inside = np.arange(NEW) < texts.lengths[:, None]
    full[:, 1:][inside] = texts.ids
    ids = torch.from_numpy(full)

    def our_score(rows):
        lm._rows = rows
        lm.log_prob(texts)

    our_time_score, their_score = in_turn(our_score, lambda b: plain_scores(plain, ids, b), batches)
    yield (
        f"{name}: scoring against a plain pass",
        their_score / our_time_score,
        scoring,
        f"{n / our_time_score:.0f} against {n / their_score:.0f} texts a second",
    )
    ours(batches[-1])
    packed = best(lambda: ours(batches[-1]))
    for module in lm.model.modules():
        if type(module) in PACKED.values():
            module.__class__ = type(module).__mro__[2]
    own = best(lambda: ours(batches[-1]))
    yield (
        f"{name}: drawing, products by oneDNN against torch's own",
        own / packed,
        ">= 1",
        f"{n / packed:.1f} against {n / own:.1f} a second, {batches[-1]} at once",
    )
    peak = matmul_peak()
    # Two operations per weight and token; the tied embeddings count once, for the head.
    weights = sum(p.numel() for p in lm.model.parameters())
    tokens = float(texts.lengths.sum() + n)
    for what, seconds in (("decoding", our_time), ("scoring", our_time_score)):
        share = 2 * weights * tokens / seconds / peak
        yield (
            f"{name}: {what}, share of the float32 matmul peak",
            share,
            ">= 0",
            f"{2 * weights * tokens / seconds / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s",
        )


def matmul_peak(size=2048):
    """Return the operations per second of a large float32 matrix product."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / best(lambda: a @ b, 5)


MEMORY = """
import sys, numpy as np
import quasir as qr
from benchmarks.memory import gigabytes
lm = qr.text.CausalLM(sys.argv[1], max_tokens=40, device="cpu")
ids = np.random.default_rng(0).integers(0, 50256, (1024, 40))
lm.log_prob(qr.text.Texts.of([[1, 2]], lm.tokenizer))
texts = qr.text.Texts.of(ids.tolist(), lm.tokenizer)
before = gigabytes("VmRSS")
lm.log_prob(texts)
print(gigabytes("VmHWM") - before)
"""


def memory_row(folder):
    command = [sys.executable, "-c", MEMORY, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return (
        "scoring 1,024 texts of 40 tokens, vocabulary 50,257: GB above the model",
        float(run.stdout),
        "<= 2",
        "peak resident memory, GPT-2 small",
    )
