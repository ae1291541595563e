"""`quasir run`: from a constraint to certified samples and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

from typer import Argument, Option

from quasir import recipes
from quasir.cli.bar import Bars
from quasir.cli.options import (
    MOST_SAMPLES,
    AllowCode,
    Budget,
    Column,
    Context,
    Contexts,
    Draws,
    Json,
    Out,
    Seed,
    nameable,
)
from quasir.core.files import is_file, make_folder, write_text
from quasir.errors import InputError
from quasir.recipes.one_line import name_recipe, split_choice, write_recipe
from quasir.runs import pipeline
from quasir.runs.outputs import describe_outputs

Text: TypeAlias = str | None
Texts: TypeAlias = list[str] | None
ONE_LINE = (
    *("contains", "regex", "schema", "choice", "classifier", "want"),
    *("prompt", "chat", "tvd", "max_tokens", "samples"),
)
"""The options that stand for a recipe, with --base."""


def run(
    recipe: Annotated[
        Text,
        Argument(
            metavar="RECIPE",
            help="A built-in recipe, a YAML file, or a run's folder; none with --base.",
            callback=nameable,
        ),
    ] = None,
    draws: Draws = None,
    out: Out = None,
    context: Context = None,
    contexts: Contexts = None,
    column: Column = None,
    budget: Budget = None,
    allow_code: AllowCode = False,
    json: Json = False,
    seed: Seed = None,
    base: Annotated[Text, Option(help="Instead of a recipe: a model, or a server's URL.")] = None,
    contains: Annotated[Texts, Option(help="Every text has this; may be repeated.")] = None,
    regex: Annotated[Text, Option(help="The whole text matches this expression.")] = None,
    schema: Annotated[
        Path | None, Option(help="The text is JSON of the schema in this file.")
    ] = None,
    choice: Annotated[Text, Option(help="The text is one of these: yes,no.")] = None,
    classifier: Annotated[
        Texts,
        Option(
            help="MODEL:LABEL=0.5 in the mean; without =, every text.", metavar="MODEL:LABEL[=MEAN]"
        ),
    ] = None,
    want: Annotated[
        Texts, Option(help="Another mean of a feature.", metavar="FEATURE=MEAN")
    ] = None,
    prompt: Annotated[Text, Option(help="What the texts go on from.")] = None,
    chat: Annotated[Text, Option(help="The user's message that the texts answer.")] = None,
    tvd: Annotated[
        float | None, Option(help="Guaranteed with confidence 0.95; 0.1 if left out.", min=0, max=1)
    ] = None,
    max_tokens: Annotated[int | None, Option(help="The length limit of a text.", min=1)] = None,
    samples: Annotated[
        int | None, Option(help="How many samples to keep.", min=1, max=MOST_SAMPLES)
    ] = None,
) -> None:
    """Run a recipe: draws, trade-off, samples, report.

    The report opens in a browser. If the run is stopped, the same command goes on from there. With
    --contexts, the recipe refers to fields of the contexts, as in {question}, and --draws is for
    all of them together. With --base, the recipe is written from the other options.

    Example: quasir run scientists --out runs/scientists

    Example: quasir run --base quasir/smollm2 --chat "Name a drink." --contains coffee
    """
    values = locals()
    given = {name: values[name] for name in ONE_LINE if values[name] not in (None, [])}
    bars = Bars()
    if base is not None and recipe is None:
        recipe, out = _written(base, given, out, bars)
    elif base is not None or given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given) or "--base"
        raise InputError(
            f"options such as {names} make a recipe: give --base with them, and no recipe."
        )
    elif recipe is None:
        raise InputError(
            "give a recipe, or --base and a constraint: quasir run scientists, or quasir run "
            "--base quasir/smollm2 --contains coffee. `quasir recipes` lists the built-in ones."
        )
    made = pipeline.run(
        recipe,
        out,
        draws=draws,
        seed=seed,
        progress=bars,
        context=context,
        allow_code=allow_code,
        contexts=contexts,
        column=column,
        budget=budget,
    )
    if json:
        print((made.folder / "certificate.json").read_text(), end="")
    else:
        print(describe_outputs(made))


def _written(base: str, given: dict[str, Any], out: Path | None, bars: Bars) -> tuple[str, Path]:
    """Write the recipe that the options mean, beside the folder of its run; return both."""
    plain = write_recipe(base, **given)
    text = recipes.dump(recipes.from_dict(plain))
    folder = out or Path("runs") / name_recipe(plain)
    path = folder.parent / f"{folder.name}.yaml"
    if is_file(path) and path.read_text(encoding="utf-8") != text:
        raise InputError(f"{path} is another recipe: give another folder with --out.")
    make_folder(path.parent)
    write_text(path, text)
    bars.say(f"these options mean {path}")
    if "choice" in given and "://" not in base:
        from quasir.text.choices import choose

        said = plain["base"].get("chat", given.get("prompt", ""))
        bars.say(str(choose(base, said, split_choice(given["choice"], None))))
    return str(path), folder
