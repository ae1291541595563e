"""The search of a run: where a recipe names no proposal, over contexts, with what it gives."""

import numpy as np
import pytest
import torch

import quasir as qr
from quasir import recipes
from quasir.runs.fitting import searches
from tests.text.tiny import gpt2, tokenizer

RECIPE = {
    "features": {"rare": {"search": "^c"}},
    "want": {"rare": 1},
    "draws": 4096,
    "max_tokens": 5,
    "choose": {"tvd": 0.1, "confidence": 0.95},
    "samples": 20,
}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Return the folder of a tiny model, of which few texts begin with c."""
    folder = tmp_path_factory.mktemp("finding") / "tiny"
    words = tokenizer(("a", "b", "c", "d"))
    model = gpt2(len(words), scale=0.7)
    with torch.no_grad():
        model.transformer.wte.weight[words.convert_tokens_to_ids("c")] *= -1.0
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


class Says:
    """A reporter that keeps what is said."""

    def __init__(self):
        self.said = []

    def say(self, message):
        self.said.append(message)

    def stage(self, label):
        return qr.core.progress.Quiet().stage(label)


def test_a_recipe_that_names_no_proposal_has_one_searched(base, tmp_path):
    """It costs less than the base, its record is said, and the run's recipe names it."""
    says = Says()
    run = qr.run(RECIPE | {"base": base}, tmp_path / "run", progress=says)
    assert any("searching a proposal with 2,048 draws" in one for one in says.said)
    assert any("chosen" in one for one in says.said)
    assert run.recipe.proposal.guide.file == "proposal.safetensors"
    plain = qr.run(RECIPE | {"base": base, "proposal": "base"}, tmp_path / "b", progress=False)
    rates = [one.certificate.acceptance_rate.value for one in (run, plain)]
    assert rates[0] > 1.5 * rates[1]
    # It is not searched again.
    again = Says()
    more = qr.run(RECIPE | {"base": base}, tmp_path / "run", draws=5000, progress=again)
    assert len(more.draws) == 5000
    assert not any("searching" in one for one in again.said)


def test_an_easy_base_is_kept_and_named(base, tmp_path):
    """The draws are those of the base, to the bit."""
    easy = RECIPE | {"base": base, "features": {"rare": {"search": "a|b"}}}
    run = qr.run(easy, tmp_path / "run", progress=False)
    assert "proposal: base" in (tmp_path / "run" / "recipe.yaml").read_text()
    plain = qr.run(easy | {"proposal": "base"}, tmp_path / "plain", progress=False)
    np.testing.assert_array_equal(run.draws.log_q, plain.draws.log_q)
    assert len(qr.run(easy, tmp_path / "run", draws=5000, progress=False).draws) == 5000


def test_contexts_have_one_search(base, tmp_path):
    recipe = RECIPE | {"base": {"model": base, "prompt": "{start}"}, "draws": 6000}
    contexts = [{"start": start} for start in ("a", "b", "d a")]
    run = qr.run(recipe, tmp_path / "run", contexts=contexts, progress=False)
    assert run.recipe.proposal.guide.file == "proposal.safetensors"
    plain = recipe | {"proposal": "base"}
    other = qr.run(plain, tmp_path / "plain", contexts=contexts, progress=False)
    for i in range(3):
        possible = [np.mean(one[i].draws.log_p > -np.inf) for one in (run, other)]
        assert possible[0] > 1.5 * possible[1]


def test_words_and_proposals_that_are_given(base, tmp_path):
    """A search tries what the recipe gives; what helps is named by the run's recipe."""
    words = RECIPE | {"base": base, "proposal": {"guide": {"boost": ["c"]}}}
    found = qr.run(words, tmp_path / "words", progress=False).recipe.proposal
    assert found.guide.file == "proposal.safetensors"
    given = RECIPE | {"base": base, "proposal": {"auto": [{"prompt": "a"}, {"temperature": 3.0}]}}
    says = Says()
    run = qr.run(given, tmp_path / "given", progress=says)
    assert "base and given 2" in str(says.said)
    assert len(run.draws) == 4096
    assert recipes.parse(recipes.dump(run.recipe), "again") == run.recipe


@pytest.mark.parametrize(
    ("change", "is_searched"),
    [
        ({}, True),
        ({"proposal": "base"}, False),
        ({"proposal": "auto", "draws": 100}, True),
        ({"draws": 100}, False),
        ({"want": {}, "features": {}}, False),
        ({"base": {"server": "http://localhost:1"}}, False),
        ({"base": {"poisson": 3}}, False),
    ],
)
def test_what_is_searched(change, is_searched):
    says = Says()
    recipe = recipes.from_dict(RECIPE | {"base": "quasir/biographies"} | change)
    assert searches(recipe, says) == is_searched
    assert bool(says.said) == ("server" in str(change))


def test_a_hopeless_base_ends_before_the_run(base, tmp_path):
    never = RECIPE | {"base": base, "features": {"rare": {"search": "zzz"}}}
    with pytest.raises(qr.errors.TuningError, match="proposal: base, nothing is searched"):
        qr.run(never, tmp_path / "run", progress=False)
