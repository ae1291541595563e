"""Your reward r(x): samples of the base times exp(r(x)/T), which RLHF aims at."""

import quasir as qr


def reward(text):
    """Return how near a text is to twelve words: at most 0."""
    return -abs(len(text.split()) - 12) / 12


base = qr.text.CausalLM("quasir/smollm2", prompt="My cat is", max_tokens=20)
target = base * qr.reward(qr.Feature("reward", reward, high=0.0), temperature=0.1)
draws = qr.draw(target, base, 1_000, seed=0)
cert = qr.tradeoff(draws).at(tvd=0.1, confidence=0.95)
print(cert)
print(*draws.samples(cert)[:4], sep="\n")
