"""A run that is not what its recipe says is refused, by name."""

import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import quasir as qr
from quasir import recipes
from quasir.core.progress import Quiet
from quasir.runs import fitting
from quasir.runs.fitting import FIT
from quasir.runs.integrity import refuse_changes
from quasir.store import Store
from quasir.store.manifest import seal_of

RECIPE = {
    "base": {"table": {"a": 0.4, "ab": 0.3, "c": 0.2, "d": 0.1}},
    "features": {"isa": {"contains": "a"}, "long": {"search": ".."}},
    "want": {"isa": 0.5},
    "lambda": {"long": 1.0},
    "draws": 600_000,
    "fit": 4000,
    "choose": {"tvd": 0.05},
    "samples": 20,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return qr.run(RECIPE, out=tmp_path_factory.mktemp("runs") / "run", progress=False).folder


@pytest.fixture
def folder(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def edit(folder, reseal=False, **changes):
    content = manifest(folder) | changes
    if reseal:
        del content["sha256"]
        content["sha256"] = seal_of(content)
    (folder / "manifest.json").write_text(json.dumps(content))


def test_another_seed_is_refused_even_if_the_manifest_is_sealed_again(folder):
    edit(folder, reseal=True, seed=1)
    with pytest.raises(qr.errors.StoreError, match=r"its seed is 0 and should be 1"):
        qr.Draws.load(folder)
    with pytest.raises(qr.errors.StoreError, match=r"recipe\.yaml has seed 0, but .* seed 1"):
        _ = qr.open_run(folder).recipe


def test_a_shard_copied_over_another_with_its_entry_is_refused(folder):
    names = ["shard-00000.parquet", "shard-00001.parquet"]
    shutil.copy(folder / "draws" / names[0], folder / "draws" / names[1])
    shards = manifest(folder)["shards"]
    shards[names[1]] = shards[names[0]]
    edit(folder, reseal=True, shards=shards)
    for look in (
        lambda: qr.Draws.load(folder),
        lambda: qr.tradeoff(folder, stream=True),
        lambda: qr.Draws.of_shard(Store.open(folder), 1),
    ):
        with pytest.raises(
            qr.errors.StoreError, match=r"shard-00001\.parquet .* its number is 0 and"
        ):
            look()


def test_a_shard_of_another_run_is_refused(folder, tmp_path):
    other = qr.run(RECIPE | {"lambda": {"long": 2.0}}, out=tmp_path / "other", progress=False)
    name = "shard-00000.parquet"
    shutil.copy(other.folder / "draws" / name, folder / "draws" / name)
    shards = manifest(folder)["shards"]
    shards[name] = manifest(other.folder)["shards"][name]
    edit(folder, reseal=True, shards=shards)
    with pytest.raises(qr.errors.StoreError, match="its recipe is"):
        qr.Draws.load(folder)


@pytest.mark.parametrize(
    ("was", "now"),
    [("long: 1.0", "long: 2.0"), ("lambda:\n  long: 1.0\n", ""), ("a: 0.4", "a: 0.5")],
    ids=["lambda changed", "lambda removed", "base changed"],
)
def test_a_recipe_that_was_edited_in_the_run_is_refused(folder, was, now):
    path = folder / "recipe.yaml"
    assert was in path.read_text()
    path.write_text(path.read_text().replace(was, now, 1))
    with pytest.raises(qr.errors.StoreError, match="is not the recipe that the draws beside it"):
        _ = qr.open_run(folder).certificate
    with pytest.raises(qr.errors.StoreError, match="is not the recipe that the draws beside it"):
        qr.run(folder, progress=False)


def test_what_no_draw_depends_on_may_be_edited(folder):
    path = folder / "recipe.yaml"
    path.write_text(path.read_text().replace("samples: 20", "samples: 30"))
    assert len(qr.open_run(folder).samples) == 30


def test_a_fit_that_was_stopped_goes_on(tmp_path, monkeypatch):
    """The draws of the fit belong to the run: nothing is drawn twice, and lambda is the same."""
    monkeypatch.setattr(fitting, "BLOCKS", 1)
    whole = qr.run(RECIPE | {"draws": 1024}, out=tmp_path / "whole", progress=False)

    class Stop(Exception):
        pass

    class Impatient(Quiet):
        @contextmanager
        def stage(self, label):
            def report(done, wanted, proposed):
                if label == "fitting" and done >= 2048:
                    raise Stop

            yield report

    out = tmp_path / "stopped"
    with pytest.raises(Stop):
        qr.run(RECIPE | {"draws": 1024}, out=out, progress=Impatient())
    kept = len(Store.open(out / FIT))
    assert 0 < kept < 4000
    assert not (out / "manifest.json").exists()
    with pytest.raises(qr.errors.StoreError, match="holds draws of another recipe"):
        qr.run(RECIPE | {"lambda": {"long": 2.0}}, out=out, progress=False)
    resumed = qr.run(RECIPE | {"draws": 1024}, out=out, progress=False)
    assert resumed.recipe.fitted == whole.recipe.fitted
    np.testing.assert_array_equal(resumed.draws.log_p, whole.draws.log_p)


FITTED = """\
base: {table: {a: 0.4, ab: 0.3, c: 0.2, d: 0.1}}
features: {isa: {contains: a}, long: {search: ..}}
want: {isa: 0.5}
lambda: {long: 3}
fitted: {isa: 1.25}
"""


def refuse(now):
    before = recipes.parse(FITTED, "before.yaml")
    refuse_changes(before, recipes.parse(now, "now.yaml"), Path("run"))


@pytest.mark.parametrize("fitted", ["fitted: {isa: 1.25}\n", "", "fitted: {}\n"])
def test_what_was_fitted_may_be_left_out(fitted):
    refuse(FITTED.replace("fitted: {isa: 1.25}\n", fitted))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("lambda: {long: 3}\n", ""), r"lambda was \{'long': 3.0\}, now absent"),
        (("long: 3}", "long: 2}"), r"lambda was \{'long': 3.0\}, now \{'long': 2.0\}"),
        (("isa: 1.25", "isa: 1.5"), r"fitted was \{'isa': 1.25\}, now \{'isa': 1.5\}"),
    ],
)
def test_another_lambda_is_refused_by_name(change, says):
    with pytest.raises(qr.errors.StoreError, match=says):
        refuse(FITTED.replace(*change))
