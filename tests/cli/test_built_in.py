"""Every built-in recipe is run to its end, at a small size."""

import json

import pytest
import yaml

import quasir as qr
from quasir import recipes
from tests.cli.helpers import quasir

SIZES = {
    "poissons": {"draws": 20_000, "samples": 1000},
    "scientists": {"draws": 1024, "samples": 10},
    "sports": {"draws": 1024, "samples": 10},
    "female": {"draws": 1024, "samples": 10},
    "contains": {"draws": 4096, "samples": 2},
    "paraphrase": {"draws": 1024, "samples": 1},
}
CONTEXTS = {"paraphrase": ["--context", "Which is the best phone under 15000 Rs.?"]}


def test_none_is_left_out():
    assert set(SIZES) == set(recipes.BUILT_IN)


LIKE_SCIENTISTS = ("sports", "female")
"""Recipes of the same form and model as another: they are run by `make test-all`."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LIKE_SCIENTISTS else name
        for name in recipes.BUILT_IN
    ],
)
def test_run_to_its_end(name, tmp_path):
    recipe = yaml.safe_load(recipes.BUILT_IN[name].read_text()) | SIZES[name]
    (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    out, _ = quasir("run", f"{name}.yaml", "--json", *CONTEXTS.get(name, []), cwd=tmp_path)
    run = tmp_path / "runs" / name
    certificate = json.loads(out)
    assert certificate["n"] == SIZES[name]["draws"]
    assert (run / "report.html").stat().st_size > 10_000
    lines = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
    assert lines
    resolved = recipes.read(run / "recipe.yaml")
    for feature in resolved.pointwise:
        assert all(line["features"][feature] for line in lines)
    # Every constraint that holds in the mean has a lambda that raises it, as the base has less.
    assert all(value > 0 for value in resolved.fitted.values())
    assert set(resolved.fitted) == set(recipe.get("want", {})) - set(resolved.pointwise)
    draws = qr.Draws.load(run)
    if "model" in recipes.read(recipes.BUILT_IN[name]).base.given(("model",)):
        text = draws.items[0]
        assert text.text
        assert len(text.token_ids) > 0
        manifest = json.loads((run / "manifest.json").read_text())
        assert manifest["models"][0]["name"] == resolved.base.model
        assert len(manifest["models"][0]["weights_sha256"]) == 64
