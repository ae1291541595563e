"""The contexts of a run: what is known about each, its target and draws, and how many it gets.

An ordinary run has one, without fields; a run over contexts keeps a table, `contexts.jsonl`.
All get equal shares first, then the cheapest needs are served: the draws, so the seed, decide.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from quasir import recipes
from quasir.certificates.choice import choose_level
from quasir.certificates.curve import tradeoff
from quasir.core.files import write_text
from quasir.core.streams import context_seed
from quasir.core.types import Proposal, optional_attribute
from quasir.draws.ceiling import BaseCheck, RatioBounds
from quasir.draws.draws import Draws
from quasir.errors import InputError, QuasirError, StoreError
from quasir.recipes.building import Built, build, own_files, resolve
from quasir.recipes.placeholders import Context, fill
from quasir.recipes.schema import Recipe
from quasir.store import Store
from quasir.store.store import CONTEXTS, ContextStore
from quasir.targets.product import Product

KEPT = 1024  # contexts whose features and settings are kept, at most
AT_ONCE = 5_000_000  # draws of several contexts that are in memory at once


@dataclass(frozen=True)
class Entry:
    """One context of a run, and what is known about it before anything is drawn."""

    context: Context  # an ordinary run has one, without fields
    seed: int  # of its draws; depends on the run's seed, its index and its text only
    known: RatioBounds = field(default_factory=RatioBounds)  # about its ratios
    warnings: tuple[str, ...] = ()  # problems that cannot be seen in its draws
    base_check: BaseCheck | None = None
    fitted: dict[str, float] = field(default_factory=dict)  # where each context has its own lambdas
    failed: str | None = None  # why nothing is drawn of it

    @classmethod
    def of(cls, context: Context, seed: int) -> Entry:
        """Return a context about which nothing is known yet, in a run with this seed."""
        return cls(context, context_seed(seed, context.index, context.key))

    @classmethod
    def only(cls, seed: int) -> Entry:
        """Return the one context of an ordinary run with this seed."""
        return cls(Context(0, {}), seed)

    @property
    def index(self) -> int:
        """Its number, counted from 0."""
        return self.context.index

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields; an ordinary run's context has none."""
        return dict(self.context.fields)

    def filled(self, recipe: Recipe) -> Recipe:
        """Return the run's recipe as this context has it."""
        if self.fields:
            recipe = fill(recipe, self.context)
        return recipe.model_copy(update={"fitted": self.fitted}) if self.fitted else recipe

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        content = {
            "context": self.index,
            "fields": self.fields,
            "seed": str(self.seed),
            "known": self.known.to_dict(),
            "warnings": list(self.warnings) or None,
            "base_check": None if self.base_check is None else self.base_check.to_dict(),
            "fitted": self.fitted or None,
            "failed": self.failed,
        }
        return {name: value for name, value in content.items() if value is not None}

    @classmethod
    def from_dict(cls, content: dict[str, Any], where: str) -> Entry:
        """Read what `to_dict` wrote."""
        return cls(
            context=Context(int(content["context"]), dict(content["fields"]), where),
            seed=int(content["seed"]),
            known=RatioBounds.from_dict(content["known"]),
            warnings=tuple(content.get("warnings", ())),
            base_check=BaseCheck.from_dict(content.get("base_check")),
            fitted={str(k): float(v) for k, v in content.get("fitted", {}).items()},
            failed=content.get("failed"),
        )


def write_table(folder: Path, entries: Sequence[Entry]) -> str:
    """Write `contexts.jsonl`, a line for each context; return its hash."""
    text = "".join(json.dumps(entry.to_dict(), ensure_ascii=True) + "\n" for entry in entries)
    write_text(folder / CONTEXTS, text)
    return hashlib.sha256(text.encode()).hexdigest()


def entries_of(store: Store) -> list[Entry]:
    """Return the contexts of a run: those of its table, or the one of an ordinary run."""
    if store.manifest.contexts is None:
        return [Entry.only(store.seed)]
    path = store.folder / CONTEXTS
    try:
        text = path.read_bytes().decode()
        if hashlib.sha256(text.encode()).hexdigest() != store.manifest.contexts:
            raise StoreError(
                f"{path} is not the table of contexts that the draws beside it were made with: it "
                "was changed by hand. Put it back, or begin another run with --out."
            )
        return [
            Entry.from_dict(json.loads(line), f"{path}, line {number}")
            for number, line in enumerate(text.splitlines(), start=1)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} cannot be read: {error}.") from error


class Builder:
    """Makes the target and the proposal of one context after another; models are loaded once."""

    def __init__(self, recipe: Recipe, folder: Path, allow_code: bool = False) -> None:
        self.recipe, self.folder, self.allow_code = recipe, folder, allow_code
        self.watches = False  # whether it draws from the base, and watches all features
        self.loaded: dict[Any, Any] = {}
        self._built: OrderedDict[int, Built] = OrderedDict()

    def built(self, entry: Entry) -> Built:
        """Return the base, the features and the proposal of a context."""
        if entry.index not in self._built:
            try:
                recipe = entry.filled(self.recipe)
                made = build(recipe, self.folder, self.allow_code, self.loaded)
            except QuasirError as error:
                if not entry.fields:
                    raise
                raise InputError(f"{entry.context.where}: {error}") from error
            self._built[entry.index] = made
            if len(self._built) > KEPT:
                self._built.popitem(last=False)
        return self._built[entry.index]

    def pair(self, entry: Entry) -> tuple[Product, Proposal]:
        """Return the target and the proposal of a context."""
        built = self.built(entry)
        if self.watches:
            return Product(built.base, watched=list(built.features.values())), built.base
        return resolve(entry.filled(self.recipe), built)[1], built.proposal

    def release(self, entry: Entry) -> None:
        """Forget what a context's models have computed of their prompts."""
        if (built := self._built.get(entry.index)) is not None:
            _forget_prompts(built.base, built.proposal)


def _forget_prompts(*sources: Any) -> None:
    for source in sources:
        _forget_prompts(*getattr(source, "components", ()))
        for lm in (source, getattr(source, "base", None)):
            if lm is not None and hasattr(lm, "forget_prompt"):
                lm.forget_prompt()


@dataclass(frozen=True)
class WorkerSpec:
    """A builder for another process: it gets the recipe, and loads the models itself."""

    recipe: str  # as YAML, with the lambdas that all contexts share
    entry: Entry  # a context whose models are looked at
    files: tuple[tuple[str, bytes], ...]  # name and content of the user's own code
    models: tuple[Mapping[str, Any], ...]  # with other models the draws would differ
    served: Mapping[Any, Any]  # models on a server, which were probed already

    @classmethod
    def of(cls, builder: Builder, entries: Sequence[Entry], store: Store) -> WorkerSpec:
        """Return the builder of a run."""
        recipe, loaded = builder.recipe, builder.loaded
        paths = own_files(recipe, store.folder).items()
        files = tuple((name, path.read_bytes()) for name, path in paths)
        entry = next(entry for entry in entries if entry.failed is None)
        served = {key: lm for key, lm in loaded.items() if key[0] == "served"}
        if served:
            built = builder.built(entry)
            for part in (built.base, built.proposal, *getattr(built.proposal, "components", ())):
                optional_attribute(part, "mismatch")  # which probes the server
        return cls(recipes.dump(recipe), entry, files, tuple(store.manifest.models), served)

    def __call__(self) -> Builder:
        """Load the models."""
        kept = tempfile.TemporaryDirectory()  # it is removed with the builder
        for file, content in self.files:
            path = Path(kept.name) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        recipe = recipes.parse(self.recipe, "recipe.yaml")
        builder = Builder(recipe, Path(kept.name), bool(self.files))
        builder.loaded |= {"folder": kept, **self.served}
        models = builder.built(self.entry).models
        if models != list(self.models):
            raise StoreError(
                f"a worker has other models than the run: {models}, not {self.models}. The draws "
                "would come from two distributions."
            )
        return builder


def draws_of(store: Store, entry: Entry, items: bool = True) -> Draws:
    """Return the draws of one context; only the shards that hold it are read."""
    found = dict(draws_by_context(store, [entry], items))
    if entry.index not in found:
        why = "" if entry.failed is None else f": {entry.failed}"
        raise InputError(f"context {entry.index} of {store.folder} has no draws{why}")
    return found[entry.index]


def draws_by_context(
    store: Store, entries: Sequence[Entry], items: bool = True
) -> Iterator[tuple[int, Draws]]:
    """Yield index and draws of each of some contexts that has any, in their order."""
    store.numbers()  # says so, if there are none
    if not isinstance(store, ContextStore):
        yield 0, Draws.load(store, items)
        return
    counts, group, total = store.counts(), list[Entry](), 0
    for entry in entries:
        if group and total + counts[entry.index] > AT_ONCE:
            yield from _draws_of_group(store, group, items)
            group, total = [], 0
        group.append(entry)
        total += int(counts[entry.index])
    yield from _draws_of_group(store, group, items)


def _draws_of_group(
    store: ContextStore, entries: Sequence[Entry], items: bool
) -> Iterator[tuple[int, Draws]]:
    named = {entry.index: entry for entry in entries}
    numbers = [
        number
        for number in store.numbers()
        if any(piece.context in named for piece in store.pieces[number])
    ]
    if not numbers:
        return
    context = store.contexts_of(numbers)
    every = Draws.from_rows(store.rows_with(numbers, items))
    order = np.argsort(context, kind="stable")
    indices, starts = np.unique(context[order], return_index=True)
    ends = [*starts[1:], len(order)]
    for index, start, end in zip(indices.tolist(), starts, ends, strict=True):
        if (entry := named.get(index)) is not None:
            facts: dict[str, Any] = {"known": entry.known, "base_check": entry.base_check}
            own = every.take(order[start:end])
            yield index, replace(own, seed=entry.seed, warnings=entry.warnings, **facts)


PILOT = 4
"""A quarter of the draws is shared equally; half of the rest is given out next, then the rest."""
MARGIN = 1.1  # more draws than the estimated need, since the acceptance rate is an estimate
UNMET, NEVER = 4.0, 16.0
"""Draws that are guessed to be needed, as multiples of those there are: where the request is not
met yet, and where no draw was possible yet."""
MOST = 2.0
"""A context whose need is a guess, or more than there is, gets at most so many equal shares."""


@dataclass(frozen=True)
class Need:
    """The draws that a context is estimated to need in all, and whether its request is met."""

    draws: int
    met: bool
    guess: bool = False


def most_draws(budget: int, contexts: int) -> int:
    """Return the draws in all that a context gets which seems hopeless."""
    return math.ceil(MOST * budget / max(contexts, 1))


def shared_out(total: int, shares: int) -> list[int]:
    """Return a number in equal shares; the first ones get what remains."""
    each, more = divmod(total, shares)
    return [each + (i < more) for i in range(shares)]


def pilot(budget: int, open_: Sequence[bool]) -> list[int]:
    """Return the draws of each context in the first round: equal, a quarter of the budget."""
    wanted = sum(open_)
    if budget < wanted:
        raise InputError(
            f"{budget:,} draws are too few for {wanted:,} contexts: give at least one to each with "
            "--draws; some hundreds show what a context costs."
        )
    each = max(budget // (PILOT * wanted), 1)
    return [each if one else 0 for one in open_]


def need_of(draws: Draws, request: dict[str, float], samples: int) -> Need:
    """Return what a context needs to meet the request and to have so many accepted draws."""
    n = len(draws)
    evaluator = tradeoff(draws).evaluator
    if not evaluator.n_possible:
        return Need(math.ceil(NEVER * n), met=False, guess=True)
    ((name, wanted),) = ((k, v) for k, v in request.items() if k != "confidence")
    level = choose_level(evaluator, name, wanted, request.get("confidence"))
    if level is None:
        return Need(math.ceil(UNMET * n), met=False, guess=True)
    rate = float(evaluator.values("acceptance_rate", np.array([level]))[0])
    needed = math.ceil(min(MARGIN * samples / max(rate, 1e-12), 1e15))
    return Need(max(needed, n), met=needed <= n)


def allocated(counts: Sequence[int], needs: Sequence[Need | None], budget: int) -> list[int] | None:
    """Return the draws of each context in all after the next round, or None at the budget's end."""
    left = budget - sum(counts)
    if left <= 0:
        return None
    # The last round gives out all that is left, the one before it half.
    last = sum(counts) * 2 >= budget or left < 2 * len(counts)
    left = left if last else math.ceil(left / 2)
    totals = list(counts)
    known = {i: need for i, need in enumerate(needs) if need is not None}
    most = most_draws(budget, len(known))
    hopeless = set()
    for i, need in sorted(known.items(), key=lambda pair: (pair[1].draws - counts[pair[0]], pair)):
        more = max(need.draws - counts[i], 0)
        if need.met:
            continue
        if need.guess or more > left:
            hopeless.add(i)
            more = min(more, max(most - counts[i], 0))
        more = min(more, left)
        totals[i] += more
        left -= more
    # The needs are estimates, and so are those that look met: what is left goes to all others.
    while left:
        open_ = [i for i in known if i not in hopeless or totals[i] < most]
        for i, more in zip(open_, shared_out(left, len(open_)), strict=True):
            more = min(more, most - totals[i]) if i in hopeless else more
            totals[i] += more
            left -= more
    return totals
