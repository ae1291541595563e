"""The stages of a search: draws in every context, kept so that a search that was killed goes on.

Every stage, and every context in it, has streams of its own: no draw of a search enters an
estimate.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quasir.core.files import make_folder, write_bytes
from quasir.core.items import take
from quasir.core.progress import Progress, progress_of
from quasir.core.streams import Purpose, derived_seed
from quasir.core.types import Proposal
from quasir.draws.draw import draw
from quasir.draws.draws import Draws
from quasir.engines.engine import Engine
from quasir.guides.guide import Guide
from quasir.guides.matcher import LanguageFeature
from quasir.targets.feature import Feature
from quasir.targets.product import Pointwise, Product
from quasir.text.causal import CausalLM
from quasir.text.head_fit import Logs
from quasir.text.texts import Texts, as_texts

SHARED_OUT = 4_096  # draws of a stage that are worth the start of other processes
Make = Callable[[int], Any]
"""Makes the proposal of a place, by its number."""


class Place(NamedTuple):
    """A context of the search: its target, and the proposals that the user gives for it."""

    target: Product
    candidates: tuple[Proposal, ...] = ()

    @property
    def base(self) -> CausalLM:
        """The model, with the context's prompt."""
        base: CausalLM = self.target.base
        return base

    @property
    def wanted(self) -> list[Feature]:
        """The features of the target's factors."""
        return [factor.feature for factor in self.target.factors]

    @property
    def languages(self) -> list[Guide]:
        """The languages that every text must be in."""
        wanted = [f.feature for f in self.target.factors if isinstance(f, Pointwise)]
        masks = [feature for feature in wanted if isinstance(feature, LanguageFeature)]
        return [language for feature in masks for language in feature.languages]


class Learned(NamedTuple):
    """Draws of one stage and one place that the target allows."""

    stage: int
    place: int
    texts: Texts
    logs: Logs  # of P/q, P and a


@dataclass(kw_only=True)
class Stages:
    """Makes the draws of a search, stage by stage, and keeps what they teach."""

    places: list[Place]
    seed: int
    progress: Progress = None
    engine: Engine | None = None
    folder: Path | None = None
    total: int = 0  # draws of the search, for its progress
    number: int = 0  # of the last stage
    drawn: int = 0
    possible: int = 0
    seconds: float = 0.0  # of a draw, by the last stage
    kept: list[Learned] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.report = progress_of(self.progress, "searching")
        self.sums = [(-math.inf, 0)] * len(self.places)  # log of the ratios' sum, and draws

    def draw(self, q: Make, n: int) -> list[Draws]:
        """Make the draws of the next stage, in every place."""
        self.number += 1
        each = -(-n // len(self.places))
        made = [self._draw_one(i, q, each) for i in range(len(self.places))]
        for i, (draws, _) in enumerate(made):
            at = draws.log_p > -np.inf
            log_sum, before = self.sums[i]
            log_sum = float(np.logaddexp.reduce([log_sum, *draws.log_ratio[at]]))
            self.sums[i] = log_sum, before + len(draws)
            self.drawn, self.possible = self.drawn + len(draws), self.possible + int(at.sum())
        self.seconds = sum(took for _, took in made) / (each * len(self.places))
        return [draws for draws, _ in made]

    def _draw_one(self, i: int, q: Make, n: int) -> tuple[Draws, float]:
        """Make the draws of one place, or read those of a search that was killed."""
        target, file = self.places[i].target, None
        if self.folder is not None:
            file = self.folder / f"stage-{self.number}-{i}.npz"
            if file.exists():
                return _read(file, target.base.tokenizer)
        started = time.perf_counter()
        streams = derived_seed(self.seed, Purpose.SEARCH_DRAW, self.number, i)
        engine = self.engine if n >= SHARED_OUT else None
        before = self.drawn + i * n

        def report(done: int, wanted: int, proposed: int) -> None:
            self.report(before + done, max(self.total, before + done), before + done)

        draws = draw(target, q(i), n, streams, progress=report, engine=engine)
        took = time.perf_counter() - started
        if file is not None:
            _write(file, draws, took)
        return draws, took

    def timed(self, name: str, work: Callable[[], object]) -> float:
        """Return the seconds that some work takes, or took before the search was killed."""
        file = None if self.folder is None else self.folder / f"{name}.seconds"
        if file is not None and file.exists():
            return float(file.read_text())
        started = time.perf_counter()
        work()
        took = time.perf_counter() - started
        if file is not None:
            write_bytes(file, repr(took).encode())
        return took

    def learn(self, q: Make, n: int) -> list[Draws]:
        """Make the draws of the next stage, and keep what they teach."""
        drawn = self.draw(q, n)
        for i, draws in enumerate(drawn):
            at = np.flatnonzero(draws.log_p > -np.inf)
            if len(at):
                texts = as_texts(take(draws.items, at), self.places[i].base.tokenizer)
                assert draws.log_base is not None
                logs = draws.log_ratio[at], draws.log_p[at], draws.log_base[at]
                self.kept.append(Learned(self.number, i, texts, logs))
        return drawn

    def log_z(self, place: int) -> float:
        """Return the log of Z of a place, by all draws so far; one place needs none."""
        log_sum, draws = self.sums[place]
        return log_sum - math.log(draws) if len(self.places) > 1 else 0.0


def _write(file: Path, draws: Draws, seconds: float) -> None:
    """Keep the draws of a stage, so that a search that was killed goes on."""
    texts, columns = draws.items, ("log_p", "log_q", "log_base")
    kept = {name: getattr(draws, name) for name in columns}
    content = io.BytesIO()
    np.savez(content, ids=texts.ids, offsets=texts.offsets, seconds=seconds, **kept)
    make_folder(file.parent)
    write_bytes(file, content.getvalue())


def _read(file: Path, tokenizer: Any) -> tuple[Draws, float]:
    kept = np.load(file)
    texts = Texts(kept["ids"], kept["offsets"], tokenizer)
    columns = {name: kept[name] for name in ("log_p", "log_q", "log_base")}
    return Draws(**columns, log_u=np.zeros(len(texts)), items=texts), float(kept["seconds"])
