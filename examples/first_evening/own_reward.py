"""Your reward r(x): samples of the base times exp(r(x)/T), which RLHF aims at."""

import quasir as qr


def reward(text):
    """Return how near a text is to twelve words: at most 0."""
    return -abs(len(text.split()) - 12) / 12


base = qr.text.CausalLM("quasir/biographies", max_tokens=30)
target = base * qr.reward(qr.Feature("reward", reward, high=0.0), temperature=0.1)
cert = qr.tradeoff(qr.draw(target, base, 4_000, seed=0)).at(tvd=0.1, confidence=0.95)
print(cert)
