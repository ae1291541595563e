"""A small recipe over contexts whose truths are known exactly."""

import numpy as np

WORDS = {
    f"{a}{b}": 1.0 + (3 * i + 5 * j) % 7
    for i, a in enumerate("abcd")
    for j, b in enumerate("vwxyz")
}
RECIPE = {
    "base": {"table": WORDS},
    "features": {"begins": {"search": "^{letter}"}, "z": {"search": "z$"}},
    "want": {"begins": 1},
    "lambda": {"z": 1.0},
    "choose": {"tvd": 0.05},
    "draws": 12_000,
    "samples": 40,
}
CONTEXTS = [{"letter": letter} for letter in "abcd"]


def law(letter, tilt=1.0):
    """Return the exact target of a context, as word -> probability."""
    weights = {w: p * np.exp(tilt * w.endswith("z")) for w, p in WORDS.items() if w[0] == letter}
    total = sum(weights.values())
    return {word: weight / total for word, weight in weights.items()}
