"""Served models in recipes and commands: runs, contexts, kills, and `quasir doctor --server`."""

import json
import pickle

import numpy as np
import pytest
import yaml

import quasir as qr
from quasir.errors import RecipeError
from quasir.runs.active_run import begin, prepare
from quasir.runs.contexts import WorkerSpec
from quasir.runs.integrity import recipe_hash
from quasir.store import Store
from tests.cli.helpers import inside, quasir
from tests.served.double import Double, serving

PROPOSAL = {"mixture": [{"prompt": "b"}, {}]}


def recipe(url, **changes):
    made = {
        "base": {"server": {"url": f"{url}/v1", "concurrency": 4}, "model": "small"},
        "features": {"c": {"contains": "c"}},
        "want": {"c": 1},
        "proposal": PROPOSAL,
        "draws": 200,
        "max_tokens": 4,
        "choose": {"tvd": 0.1},
        "samples": 20,
    }
    return made | changes


def samples(folder):
    return list(map(json.loads, (folder / "samples.jsonl").read_text().splitlines()))


@pytest.fixture(scope="module")
def url():
    with serving(Double()) as address:
        yield address


def test_a_recipe_names_a_server_and_its_key_is_written_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("QUASIR_TEST_KEY", "very-secret")
    double = Double()
    with serving(double) as url:
        made = recipe(url)
        made["base"]["server"]["key"] = "QUASIR_TEST_KEY"
        (tmp_path / "r.yaml").write_text(yaml.safe_dump(made))
        code, *said = inside("run", tmp_path / "r.yaml", "--out", tmp_path / "run")
    assert code == 0
    assert {sent["Authorization"] for sent in double.headers} == {"Bearer very-secret"}
    written = [path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not any(b"very-secret" in text for text in [*written, *map(str.encode, said)])
    assert any(b"QUASIR_TEST_KEY" in text for text in written)
    store = Store.open(tmp_path / "run")
    assert {m["server"] for m in store.manifest.models} == {"vllm"}
    items = [sample["text"] for sample in samples(tmp_path / "run")]
    assert len(items) == 20
    assert all("c" in text for text in items)
    assert "the server at" in (tmp_path / "run/report.html").read_text()


def test_workers_get_what_the_probe_found(tmp_path):
    double = Double()
    with serving(double) as url:
        run = begin(prepare(recipe(url), tmp_path / "run"))
        spec = WorkerSpec.of(run.builder, run.entries, run.store)
        probed = len(double.seeds)
        worker = pickle.loads(pickle.dumps(spec))()
        worker.built(run.entries[0]).base.sample(3, np.random.default_rng(0))
    worker.loaded["folder"].cleanup()
    assert probed > 400
    assert len(double.seeds) == probed + 3


@pytest.mark.parametrize("proposal", [{"logit_bias": {"3": 2.0}}, {"temperature": 1.3}])
def test_a_boost_or_a_temperature_is_a_proposal(url, proposal, tmp_path):
    result = qr.run(recipe(url, proposal=proposal), out=tmp_path / "run")
    assert result is not None


def test_a_server_that_moved_goes_on_with_the_same_run(url, tmp_path):
    here = qr.recipes.from_dict(recipe(url))
    moved = qr.recipes.from_dict(recipe("http://127.0.0.1:1"))
    other = qr.recipes.from_dict(recipe(url, proposal={"prompt": "a"}))
    assert recipe_hash(here) == recipe_hash(moved) != recipe_hash(other)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base": {"server": "localhost:8000"}}, "given as http://host:8000/v1"),
        ({"base": {"server": "http://me:pw@host"}}, "must hold no password"),
        ({"base": {"server": "http://h", "adapter": "x"}}, "adapter do not go with a server"),
        ({"base": "quasir/biographies", "proposal": {"mask": {"regex": "a"}}}, "give a server"),
    ],
)
def test_bad_recipes_are_refused_before_anything_is_asked(changes, words, tmp_path):
    with pytest.raises(qr.errors.QuasirError, match=words):
        qr.run(recipe("http://127.0.0.1:9", **changes), out=tmp_path / "run")


def test_a_guide_does_not_go_with_a_server(url, tmp_path):
    with pytest.raises(RecipeError, match="needs a causal language model"):
        qr.run(recipe(url, proposal={"guide": {"boost": {"c": 5.0}}}), out=tmp_path / "run")


def test_a_file_of_prompts_against_a_server(url, tmp_path):
    made = recipe(url, draws=400, samples=2, proposal={})
    made["base"]["prompt"] = "{context}"
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(made))
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"context": c}) + "\n" for c in "abd"))
    quasir(
        "run", tmp_path / "r.yaml", "--contexts", tmp_path / "c.jsonl", "--out", tmp_path / "run"
    )
    assert len(samples(tmp_path / "run")) == 6


def test_the_doctor_reads_a_server(url):
    code, out, _ = inside("doctor", "--server", url)
    assert code == 0
    assert "good as a base and as a proposal" in out
    assert "log q of draws" in out
    told = json.loads(inside("doctor", "--server", f"{url}/v1", "--model", "small", "--json")[1])
    assert told["good_for"] == ["base", "proposal"]
    with serving(Double(lies={"colder"})) as liar:
        code, out, _ = inside("doctor", "--server", liar)
    assert code == 1
    assert "refused" in out


def test_the_doctor_names_a_server_that_is_not_there():
    code, _, err = inside("doctor", "--server", "http://127.0.0.1:9")
    assert code != 0
    assert "no server answers" in err
