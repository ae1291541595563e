"""Sentences that say what a recipe asks for."""

from __future__ import annotations

from typing import Any

from quasir.recipes.guide_schema import GuideSpec
from quasir.recipes.schema import Choice, Recipe, Source

__all__ = ["asked"]


def asked(recipe: Recipe) -> list[str]:
    """Return sentences that say what a recipe asks for."""
    said = [recipe.about] if recipe.about else []
    base = recipe.base
    name = base.model or (f"Poisson({base.poisson:g})" if base.poisson else "a table of items")
    prompt = f" after the prompt {base.prompt!r}" if base.prompt else ""
    prompt = f" in the chat {_chat(base)}" if base.chat else prompt
    limit = f", texts of at most {recipe.max_tokens} tokens" if base.model else ""
    said.append(f"The base is {name}{prompt}{limit}.")
    for feature, wish in recipe.want.items():
        if feature in recipe.pointwise:
            said.append(f"{feature} is {'true' if wish else 'false'} for every sample.")
        elif feature in recipe.fitted:
            said.append(
                f"The mean of {feature} should be {wish:g}, by a tilt with lambda = "
                f"{recipe.fitted[feature]:.4g}."
            )
    for feature, coefficient in recipe.coefficients.items():
        said.append(f"{feature} is rewarded: the base is tilted by exp({coefficient:g} phi).")
    watched = [f for f in recipe.features if f not in recipe.want and f not in recipe.coefficients]
    if watched:
        said.append(f"Also measured: {', '.join(watched)}.")
    said.append(f"Proposals come from {_proposal(recipe)}.")
    said.append(f"Beta is chosen for {_choice(recipe.choose)}.")
    return said


def _chat(source: Source) -> str:
    """Return the messages of a chat in one line."""
    return " / ".join(f"{part.role}: {part.content}" for part in source.chat or [])


def _proposal(recipe: Recipe) -> str:
    """Return the proposal in words."""

    def of(source: Any) -> str:
        if source.guide is not None:
            inner = of(source.model_copy(update={"guide": None, "share": None}))
            share = f", {source.share:.3g} of the draws without it" if source.share else ""
            return f"{inner} with a guide ({_guide(source.guide)}){share}"
        if source.mixture is not None:
            total = sum(part.weight for part in source.mixture)
            parts = [f"{part.weight / total:.3g} of {of(part)}" for part in source.mixture]
            return f"a mixture: {', '.join(parts)}"
        if source.poisson is not None:
            return f"Poisson({source.poisson:g})"
        if source.table is not None:
            return f"a table of {len(source.table)} items"
        if source.round_trip is not None:
            return f"the round trip of {source.round_trip.text!r}"
        name = source.model or "the base"
        details = [
            *([f"the adapter {source.adapter}"] if source.adapter else []),
            *([f"the prompt {source.prompt!r}"] if source.prompt else []),
            *([f"the chat {_chat(source)}"] if source.chat else []),
            *([f"the source {source.source!r}"] if source.source else []),
            *([f"temperature {source.temperature:g}"] if source.temperature != 1 else []),
            *([f"top-k {source.top_k}"] if source.top_k else []),
            *([f"top-p {source.top_p:g}"] if source.top_p else []),
        ]
        return f"{name} with {', '.join(details)}" if details else name

    return of(recipe.proposal)


def _guide(spec: GuideSpec) -> str:
    parts = [f"the language of {name}" for name in spec.mask or []]
    parts += [f"{name} is boosted" for name in spec.boost or []]
    return spec.file or ", ".join(parts)


def _choice(choice: Choice) -> str:
    """Return the wish that beta is chosen by, in words."""
    name, value = next(iter(choice.wish.items()))
    sure = "" if choice.confidence is None else f", promised with confidence {choice.confidence:g}"
    said = {
        "acceptance_rate": f"an acceptance rate of {value:g}, at the best quality",
        "tvd": f"a total variation distance of at most {value:g}, at the lowest cost",
        "tvd_bound": f"a bound on the total variation distance of at most {value:g}",
        "kl": f"a KL divergence of at most {value:g} nats, at the lowest cost",
        "beta": f"the value {value:g}",
        "log_beta": f"the value e^{value:g}",
    }
    return said[name] + sure
