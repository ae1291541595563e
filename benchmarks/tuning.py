"""Tuning: draws per second in a run, against a loop around `generate` that does the same."""

import tempfile

import torch
from transformers import AutoModelForCausalLM

import quasir as qr
from benchmarks.text import BUILT_IN, NEW, generated, in_turn
from quasir.tuning.dpg import Loop

DRAWS = 2048
BATCHES = (128, 512)


def rows(n=DRAWS, batches=BATCHES):
    if not BUILT_IN.is_dir():
        print("the built-in model is not there: its rows are left out")
        return
    base = qr.text.CausalLM("quasir/biographies", max_tokens=NEW, device="cpu")
    target = base * qr.features.female
    with tempfile.TemporaryDirectory() as folder:
        base.model.save_pretrained(folder)
        plain = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    loop = Loop(qr.tuning.DPG(target, base, lora=8, draws=n, progress=False), None)
    rounds = loop.rounds
    rounds.draw_first(n)
    # The policy still equals the base, but the run treats it as another proposal.
    rounds.adapt(loop.policy.weights)
    proposal = rounds.proposal(rounds.current)

    def ours(batch):
        proposal._rows = base._rows = batch
        rounds.draw(n)

    our_time, their_time = in_turn(ours, lambda b: around_generate(base, plain, n, b), batches)
    yield (
        "samples/s inside training, against a loop around generate",
        their_time / our_time,
        ">= 2",
        f"{n / our_time:.0f} against {n / their_time:.0f} a second, drawn, scored and pooled",
    )


@torch.inference_mode()
def around_generate(base, plain, n, batch):
    """Draw with transformers' generate, and score the texts with the feature under the base."""
    for sequences in generated(base, plain, n, batch):
        texts = base.tokenizer.batch_decode(sequences[:, 1:], skip_special_tokens=True)
        kept = sequences[torch.from_numpy(qr.features.female(texts))]
        if len(kept):
            log_probs = plain(kept).logits.log_softmax(dim=-1)
            log_probs[:, :-1].gather(2, kept[:, 1:, None]).sum(dim=1)
