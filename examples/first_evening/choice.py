"""Calibrated choices: the exact probabilities of whole answers, and the mass outside."""

import quasir as qr

chat = [{"role": "user", "content": "Is the sky blue? Answer with Yes, No or Not sure alone."}]
print(qr.choose("quasir/smollm2", chat, ["Yes", "No", "Not sure"]))
