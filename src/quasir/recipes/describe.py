"""What a recipe asks for, in sentences, and the terms of the built-in models that it needs."""

from __future__ import annotations

import re
from pathlib import Path

from quasir.estimation.quantities import OPTIONS
from quasir.recipes.parts import GuideSpec, Part
from quasir.recipes.schema import Choice, Recipe, Source

MODELS = Path(__file__).parents[1] / "text" / "models"
LINE = re.compile(r"^(?:terms|license): *(.+)$", re.MULTILINE)
UNSAID = "other"
"""What a card has as its licence where it states terms in words."""


def asked(recipe: Recipe) -> list[str]:
    """Return sentences that say what a recipe asks for."""
    said = [recipe.about] if recipe.about else []
    base = recipe.base
    name = base.model or (f"Poisson({base.poisson:g})" if base.poisson else "a table of items")
    if base.server is not None:
        name = f"{base.model or 'the model'} of the server at {base.server.url}"
    prompt = f" after the prompt {base.prompt!r}" if base.prompt else ""
    prompt = f" in the chat {_chat(base)}" if base.chat else prompt
    texts = base.model or base.server
    limit = f", texts of at most {recipe.max_tokens} tokens" if texts else ""
    said.append(f"The base is {name}{prompt}{limit}.")
    for feature, moment in recipe.want.items():
        if feature in recipe.pointwise:
            said.append(f"{feature} is {'true' if moment else 'false'} for every sample.")
        elif feature in recipe.fitted:
            said.append(
                f"The mean of {feature} should be {moment:g}, by a tilt with lambda = "
                f"{recipe.fitted[feature]:.4g}."
            )
    for feature, coefficient in recipe.coefficients.items():
        said.append(f"{feature} is rewarded: the base is tilted by exp({coefficient:g} phi).")
    watched = [f for f in recipe.features if f not in recipe.want and f not in recipe.coefficients]
    if watched:
        said.append(f"Also measured: {', '.join(watched)}.")
    said.append(f"Proposals come from {_proposal(recipe.proposal)}.")
    said.append(f"Beta is chosen for {describe_choice(recipe.choose)}.")
    return said


def _chat(source: Source) -> str:
    return " / ".join(f"{part.role}: {part.content}" for part in source.chat or [])


def _proposal(source: Source) -> str:
    """Return a proposal in words."""
    if source.searched:
        return "what a search will find"
    if source.guide is not None:
        inner = _proposal(source.model_copy(update={"guide": None, "share": None}))
        share = f", {source.share:.3g} of the draws without it" if source.share else ""
        return f"{inner} with a guide ({_guide(source.guide)}){share}"
    if source.mixture is not None:
        total = sum(part.weight for part in source.mixture)
        parts = [f"{part.weight / total:.3g} of {_proposal(part)}" for part in source.mixture]
        return f"a mixture: {', '.join(parts)}"
    if source.poisson is not None:
        return f"Poisson({source.poisson:g})"
    if source.table is not None:
        return f"a table of {len(source.table)} items"
    if source.round_trip is not None:
        return f"the round trip of {source.round_trip.text!r}"
    name = source.model or ("the base" if source.server is None else "the model")
    name = name if source.server is None else f"{name} of the server at {source.server.url}"
    details = [
        *([f"the adapter {source.adapter}"] if source.adapter else []),
        *([f"the prompt {source.prompt!r}"] if source.prompt else []),
        *([f"the chat {_chat(source)}"] if source.chat else []),
        *([f"the source {source.source!r}"] if source.source else []),
        *([f"temperature {source.temperature:g}"] if source.temperature != 1 else []),
        *([f"top-k {source.top_k}"] if source.top_k else []),
        *([f"top-p {source.top_p:g}"] if source.top_p else []),
        *([f"a bias of {len(source.logit_bias)} tokens"] if source.logit_bias else []),
        *([f"the mask {source.mask}"] if source.mask else []),
    ]
    return f"{name} with {', '.join(details)}" if details else name


def _guide(spec: GuideSpec) -> str:
    parts = [f"the language of {name}" for name in spec.mask or []]
    parts += [f"{name} is boosted" for name in spec.boost or []]
    return spec.file or ", ".join(parts)


def describe_choice(choice: Choice) -> str:
    """Return what beta is chosen for, in words."""
    name, value = next(iter(choice.asked.items()))
    said = OPTIONS[name].asks.format(value)
    sure = choice.confidence
    return said if sure is None else f"{said}, guaranteed with confidence {sure:g}"


def terms_of(recipe: Recipe) -> list[str]:
    """Return the terms of the weights, each once; an unknown or external model has none."""
    fields = [vars(part).get(name) for part in recipe.parts(Part) for name in ("model", "adapter")]
    found = [terms_of_model(name) for name in dict.fromkeys(fields) if name is not None]
    return list(dict.fromkeys(terms for terms in found if terms))


def terms_of_model(name: str) -> str | None:
    """Return the terms of a built-in model's weights, from its card."""
    card = MODELS / name.removeprefix("quasir/") / "README.md"
    if not name.startswith("quasir/") or not card.is_file():
        return None
    said = LINE.findall(card.read_text(encoding="utf-8"))[:2]
    return next((terms for terms in reversed(said) if terms != UNSAID), None)
