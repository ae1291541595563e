"""The log of a run: a line on stderr, a line of JSON, and TensorBoard on request."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from quasir.core.files import write_text
from quasir.errors import InputError
from quasir.tuning.evaluation import Evaluation

__all__ = ["Log", "line_of"]


class Log:
    """Write each evaluation as soon as it is made.

    Parameters
    ----------
    out : Path or None
        Folder of ``log.jsonl`` and of TensorBoard's files.
    progress : bool
        Whether to print each evaluation on stderr.
    tensorboard : bool
        Whether to write TensorBoard files.

    Attributes
    ----------
    rows : list of dict
        All evaluations written so far.
    """

    def __init__(self, out: Path | None, progress: bool, tensorboard: bool) -> None:
        self.path = None if out is None else out / "log.jsonl"
        self.progress = progress
        self.rows: list[dict[str, Any]] = []
        self._writer = tensorboard_writer(out) if tensorboard else None

    def restore(self, lines: int) -> None:
        """Keep only the first lines of the file; the steps of later ones will be taken again."""
        if self.path is None:
            return
        kept = self.path.read_text().splitlines()[:lines] if self.path.is_file() else []
        self.rows = [json.loads(line) for line in kept]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, "".join(line + "\n" for line in kept))

    def write(self, evaluation: Evaluation, **facts: Any) -> None:
        """Write one evaluation, with further facts about the step."""
        row = {**facts, **evaluation.to_dict()}
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if self.progress:
            print(line_of(row), file=sys.stderr, flush=True)
        if self._writer is not None:
            for name, value in _scalars(row).items():
                self._writer.add_scalar(name, value, row["step"])
            self._writer.flush()


def line_of(row: dict[str, Any]) -> str:
    """Return an evaluation as one readable line."""
    moments = "  ".join(
        f"{name} {part['value']:.3f}" for name, part in row["moments"].items() if part["value"]
    )
    return (
        f"step {row['step']:>5}  round {row['round']:>2}  "
        f"KL {_with_error(row['kl'])}  TVD {_with_error(row['tvd'])}  {moments}  "
        f"Z {math.exp(min(row['log_z']['value'], 700.0)):.4g}  ESS {row['ess']:,.0f}  "
        f"{row['samples_per_second']:,.0f} samples/s{'  *' if row['best'] else ''}"
    )


def _with_error(part: dict[str, Any]) -> str:
    if part["value"] is None:
        return "unknown"
    return f"{part['value']:.4f}" + ("" if part["se"] is None else f" ± {part['se']:.4f}")


def _scalars(row: dict[str, Any]) -> dict[str, float]:
    scalars = {name: row[name]["value"] for name in ("kl", "tvd", "log_z")}
    scalars |= {f"moment/{name}": part["value"] for name, part in row["moments"].items()}
    scalars |= {name: row[name] for name in ("ess", "efficiency", "samples_per_second")}
    return {name: float(value) for name, value in scalars.items() if value is not None}


def tensorboard_writer(out: Path | None) -> Any:
    """Return TensorBoard's writer, or raise an error that says what is missing."""
    if out is None:
        raise InputError("tensorboard=True writes into the folder out: give out.")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InputError("tensorboard=True needs tensorboard: pip install tensorboard.") from error
    return SummaryWriter(str(out / "tensorboard"))
