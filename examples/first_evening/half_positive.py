"""Your classifier at 50 %: half of the film reviews are positive."""

import quasir as qr

base = qr.text.CausalLM("quasir/smollm2", prompt="This movie was", temperature=0.7, max_tokens=20)
positive = qr.features.classifier("quasir/sentiment", label="POSITIVE", above=0.5)
target = qr.constrain(base, {positive: 0.5}, n=1_000, seed=0)
draws = qr.draw(target, base, 1_000, seed=0)
cert = qr.tradeoff(draws).at(tvd=0.05, confidence=0.95)
print(cert)
print(*draws.samples(cert)[:4], sep="\n")
