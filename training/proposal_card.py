"""The card of a tuned proposal, and the files that are shipped with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

__all__ = ["export"]

SHIPPED = ("adapter_config.json", "adapter_model.safetensors", "tuning.json")

CARD = """\
---
base_model: quasir/biographies
license: cc-by-sa-4.0
library_name: peft
---

# quasir/biographies-{constraint}

A LoRA adapter on `quasir/biographies`, tuned by DPG towards the target of the recipe
`{constraint}`: {constraints}. It is a proposal for quasi-rejection sampling, half and half with the
base (`mixed` below), which bounds the ratios; it is not a model to draw from as it is.

- Made by `{command}`.
- Cost: {draws:,} draws in {rounds} rounds, {steps:,} steps, {minutes:.0f} minutes (one thread of
  a shared two-core machine).
- Lambda of the target: {coefficients}, fitted on draws of this proposal.
- Licence: CC BY-SA, as the texts that the base learnt from.

Judged on draws made afterwards, against the base as the proposal; `times` is mixed against base:

{table}
"""


def export(
    run: Path,
    folder: Path,
    constraint: str,
    constraints: dict[str, float],
    command: str,
    table: str,
) -> None:
    """Copy the files that load the adapter, and write its card."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SHIPPED:
        shutil.copyfile(run / name, folder / name)
    facts = json.loads((run / "tuning.json").read_text())
    coefficients = json.loads((run / "lambda.json").read_text())
    card = CARD.format(
        constraint=constraint,
        constraints=", ".join(f"{mean:.0%} {name}" for name, mean in constraints.items()),
        command=command,
        draws=facts["draws"],
        rounds=facts["rounds"],
        steps=facts["steps"],
        minutes=facts["seconds"] / 60,
        coefficients=", ".join(f"{value:.4f} ({name})" for name, value in coefficients.items()),
        table=table,
    )
    (folder / "README.md").write_text(card)
