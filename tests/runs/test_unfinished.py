"""A run that is stopped anywhere keeps what was drawn, and ends in the same files."""

import json
import random
import shutil
import signal
from itertools import pairwise

import numpy as np
import pytest

import quasir as qr
from quasir.core.items import Strings, TokenTexts
from quasir.core.streams import BLOCK, DrawStreams
from quasir.draws import draw_blocks as blocks
from quasir.draws.draw_blocks import RowMaker, rows_at_once
from quasir.runs import draw_shards
from quasir.runs.draw_shards import UNFINISHED, draw_into, kept_draws
from quasir.store import Store
from quasir.store.shard_format import bytes_of, joined, read_part, table_of
from quasir.store.store import open_store
from tests.cli.helpers import inside, start
from tests.waiting import wait_until

FLAT = qr.Table({word: 1.0 for word in ("a", "b", "c", "ab", "é")})


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


class Slow:
    """Counts the items that it scores, and dies at the one that it is told to die at."""

    def __init__(self):
        self.scored, self.dies_at = 0, None

    def log_score(self, items):
        self.scored += len(items)
        if self.dies_at is not None and self.scored >= self.dies_at:
            raise Killed
        return np.array([-0.1 * len(item) for item in items])


def hashes(store):
    return {number: shard.sha256 for number, shard in store.shards.items()}


def begun(folder, blocks_a_shard):
    return Store.create(folder, seed=5, blocks_a_shard=blocks_a_shard)


@pytest.fixture
def steps_of_50(monkeypatch):
    """Write every step, and let no step grow: as a target of some rows a second has it."""
    monkeypatch.setattr(draw_shards, "KEPT_EVERY", -1.0)
    monkeypatch.setattr(draw_shards, "QUICK", -1.0)
    monkeypatch.setattr(draw_shards, "CHECKED", 50)


@pytest.mark.usefixtures("steps_of_50")
@pytest.mark.parametrize("case", range(6))
def test_killed_at_random_rows(tmp_path, monkeypatch, case):
    """The files are those of a run that was never stopped, and little is scored twice."""
    rng = random.Random(case)
    n, blocks_a_shard = rng.randint(1, 9000), rng.randint(1, 4)
    whole = begun(tmp_path / "whole", blocks_a_shard)
    with monkeypatch.context() as patch:
        # Whole blocks, as many at once as there are.
        patch.setattr(draw_shards, "CHECKED", 64 * BLOCK)
        draw_into(whole, Slow(), FLAT, n)
    store, kills = begun(tmp_path / "run", blocks_a_shard), 0
    target = Slow()
    while True:
        target.dies_at = target.scored + rng.randint(1, 2 * n // 3 + 60)
        try:
            draw_into(store, target, FLAT, n)
            break
        except Killed:
            kills += 1
            kept = kept_draws(store)
            store = Store.open(store.folder)
            assert kept_draws(store) == kept  # what the next process finds
    assert hashes(store) == hashes(whole)
    assert not (store.folder / "draws" / UNFINISHED).exists()
    # A kill loses the step under way.
    assert target.scored <= n + 50 * kills


@pytest.mark.usefixtures("steps_of_50")
def test_what_a_kill_leaves_is_read_only_if_it_is_right(tmp_path):
    whole = begun(tmp_path / "whole", 4)
    draw_into(whole, Slow(), FLAT, 3000)
    folder = tmp_path / "run" / "draws" / UNFINISHED

    def killed():
        store, target = begun(tmp_path / "run", 4), Slow()
        target.dies_at = 1000
        with pytest.raises(Killed):
            draw_into(store, target, FLAT, 3000)
        return store, sorted(folder.iterdir())

    def truncated(parts):
        parts[3].write_bytes(parts[3].read_bytes()[:-9])
        return 150

    def missing(parts):
        parts[0].unlink()
        return 0

    def renamed(parts):
        parts[5].rename(folder / parts[5].name.replace("0000250", "0000300", 1))
        return 250

    def of_another_seed(parts):
        other = Store.create(tmp_path / "other", seed=6, blocks_a_shard=4)
        target = Slow()
        target.dies_at = 200
        with pytest.raises(Killed):
            draw_into(other, target, FLAT, 3000)
        parts[2].unlink()
        there = sorted((tmp_path / "other" / "draws" / UNFINISHED).iterdir())[2]
        (folder / there.name).write_bytes(there.read_bytes())
        return 100

    for wrong in (truncated, missing, renamed, of_another_seed):
        store, parts = killed()
        assert len(parts) == 19
        left = wrong(parts)
        target = Slow()
        made = draw_into(Store.open(store.folder), target, FLAT, 3000)
        assert made == 3000 - left == target.scored, wrong.__name__
        assert hashes(Store.open(store.folder)) == hashes(whole)
        shutil.rmtree(tmp_path / "run")


@pytest.mark.parametrize("damaged", [False, True])
def test_a_run_that_is_drawn_on_keeps_the_draws_of_its_last_shard(tmp_path, damaged):
    whole, store, target = begun(tmp_path / "whole", 4), begun(tmp_path / "run", 4), Slow()
    draw_into(whole, Slow(), FLAT, 9000)
    sizes = [700, 3000, 3000, 4096, 5000, 9000]
    made = [draw_into(store, target, FLAT, n) for n in sizes[:-1]]
    assert made == np.diff([0, *sizes[:-1]]).tolist()
    assert target.scored == 5000
    if damaged:  # then all of that shard is drawn again
        store.path(1).write_bytes(store.path(1).read_bytes()[:-9])
    assert draw_into(store, target, FLAT, 9000) == 4000 + 904 * damaged
    assert hashes(store) == hashes(whole)
    assert not (store.folder / "draws" / UNFINISHED).exists()


def test_parts_of_several_kinds_are_joined_as_they_would_be_at_once():
    def draws(items):
        return qr.Draws.from_arrays([0.0] * len(items), [-1.0] * len(items), items=items)

    parts = [["a", "b"], [1, 2], ["c", 3], [4]]
    tables, first = [], 0
    for part in parts:
        tables.append(table_of(draws(part).rows, first))
        first += len(part)
    whole = table_of(draws([item for part in parts for item in part]).rows, 0)
    assert joined(tables).select(["index", "json"]).equals(whole.select(["index", "json"]))


@pytest.mark.parametrize("cut", [1, 4, 9])
def test_parts_that_were_read_make_the_same_file(cut):
    """Texts with their tokens, without tokens, numbers, and features of two types."""
    ids = np.arange(25, dtype=np.int32)
    tokens = TokenTexts(Strings.of(list("abcdéfghij")), ids, np.array([0, *range(7, 26, 2)]))
    for items in (
        tokens,
        list("abcdéfghij"),
        list(range(10)),
        [{"a": [i, 0.1]} for i in range(10)],
        [(i, "a") for i in range(10)],
        np.arange(60.0).reshape(10, 2, 3),
    ):
        rows = qr.Draws.from_arrays([0.0] * 10, [-1.0] * 10, items=items).rows
        whole = table_of(rows, 0)
        cuts = [whole.slice(0, cut), whole.slice(cut)]
        read = [read_part(file_of(part)) for part in cuts]
        assert file_of(joined(read)) == file_of(joined(cuts)) == file_of(whole)
        assert file_of(joined([read_part(file_of(whole))])) == file_of(whole)


def file_of(table):
    return bytes_of(table.replace_schema_metadata({"a": "b"}))


FEATURE = """\
import os, time

def slow(number):
    time.sleep(float(os.environ.get("SLOW", "0")))
    return number % 2
"""
RECIPE = """\
base: {poisson: 1000}
features: {slow: {python: "own.py:slow"}, x: {contains: "{word}"}}
lambda: {slow: 0.5}
draws: 4000
choose: {beta: 3}
samples: 3
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipe")
    (folder / "own.py").write_text(FEATURE)
    (folder / "over.yaml").write_text(RECIPE)
    (folder / "one.yaml").write_text(RECIPE.replace("{word}", "7"))
    (folder / "c.txt").write_text("7\n8\n")
    return folder


def content(run):
    manifest = json.loads((run / "manifest.json").read_text())
    return manifest["content"], manifest["draws"]


def kept_in(run):
    """Return the draws that are kept, as a process that only looks sees them."""
    if not (run / "manifest.json").exists():
        return 0
    return kept_draws(open_store(run))


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "how", ["one", *(pytest.param(how, marks=SLOW) for how in ("over", "workers", "interrupted"))]
)
def test_a_slow_run_is_killed_again_and_again(recipe, tmp_path, monkeypatch, how):
    """A target of 200 texts a second: every kill, or Ctrl-C, leaves what was there before it."""
    name = recipe / ("over.yaml" if how == "over" else "one.yaml")
    asked = ["draw", name, "--allow-code", "--draws", 900 if how != "workers" else 1800]
    asked += ["--contexts", recipe / "c.txt"] if how == "over" else []
    assert inside(*asked, "--out", tmp_path / "whole")[0] == 0
    run = tmp_path / "run"
    asked += ["--out", run, *(["--workers", 2] if how == "workers" else [])]
    monkeypatch.setenv("SLOW", "0.005")
    before = 0
    for _ in range(2):
        process = start(*asked)
        wait_until(lambda: kept_in(run) > before, process)  # noqa: B023
        if how == "interrupted":
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            assert process.returncode == 130
            assert f"stopped while drawing: {kept_in(run):,} draws are kept in {run}" in err
        else:
            process.kill()
            process.communicate()
        assert kept_in(run) > before
        before = kept_in(run)
    monkeypatch.setenv("SLOW", "0")
    _, out, _ = inside("watch", run, "--once", "--json")
    assert json.loads(out)["draws"] + json.loads(out)["unfinished"] == before
    code, out, err = inside(*asked)
    assert code == 0, err
    assert f"going on from {before} draws" in err
    assert f"({content(run)[1] - before:,} of them drawn now)" in out
    assert content(run) == content(tmp_path / "whole")


pytest.importorskip("torch")


@pytest.fixture(scope="module")
def lm():
    return qr.text.CausalLM("quasir/biographies", max_tokens=6)


@pytest.mark.parametrize("kind", ["plain", "guided", "mixture"])
def test_rows_of_a_model_are_those_of_its_block(lm, kind):
    base, streams = lm.prompted("She was"), DrawStreams(3)
    proposals = {
        "plain": base,
        "guided": base.guided(qr.guides.boost({"chemist": 9.0}), share=0.3),
        "mixture": qr.Mixture([base, lm.varied(temperature=1.3)], [0.3, 0.7]),
    }
    target = base * qr.features.contains("e")
    q = proposals[kind]
    whole = blocks.draw_blocks(target, q, streams, 1, 1, BLOCK + 130)
    # The last draw of the run is in the block: no more than it is asked for.
    some = RowMaker(target, q, streams, BLOCK + 130)
    rng = random.Random(1)
    cuts = [0, *sorted(rng.sample(range(1, 130), 4)), 130]
    parts = [some(BLOCK + a, BLOCK + b) for a, b in pairwise(cuts) if a < b]
    made = qr.Draws.concatenate(parts)
    assert [x.token_ids for x in made.items] == [x.token_ids for x in whole.items]
    for name in ("log_q", "log_p", "log_base"):
        np.testing.assert_allclose(getattr(made, name), getattr(whole, name), atol=1e-4)
    np.testing.assert_array_equal(made.log_u, whole.log_u)


def test_a_large_model_computes_few_rows_at_once_whatever_the_time(lm, monkeypatch):
    """The rows are fixed by the model: the built-in one still has whole blocks."""
    target = lm * qr.features.contains("e")
    assert rows_at_once(target, lm) == rows_at_once(target, lm.guided(qr.guides.boost({"a": 2.0})))
    assert rows_at_once(target, qr.text.CausalLM("quasir/biographies")) == BLOCK
    work = lm.model.num_parameters() * 6
    for times, rows in ((1000, 512), (100, 64), (64, 64), (63, 32), (1, 16)):
        monkeypatch.setattr(blocks, "NETWORK_WORK", times * work)
        assert rows_at_once(target, qr.Mixture([lm, lm.varied(temperature=2.0)])) == rows
    assert rows_at_once(FLAT, FLAT) is None


def test_a_slow_model_that_is_killed_gives_the_same_bits(lm, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "NETWORK_WORK", 40 * lm.model.num_parameters() * 6)
    monkeypatch.setattr(draw_shards, "KEPT_EVERY", -1.0)
    left, target = [1000], lm * qr.features.contains("e")

    class Dying(RowMaker):
        def __call__(self, start, stop):
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return super().__call__(start, stop)

    monkeypatch.setattr(draw_shards, "RowMaker", Dying)
    whole, store = begun(tmp_path / "whole", 1), begun(tmp_path / "run", 1)
    draw_into(whole, target, lm, 200)
    for calls, kept in ((0, 0), (3, 96), (2, 160)):
        left[0] = calls
        with pytest.raises(Killed):
            draw_into(store, target, lm, 200)
        assert kept_draws(store) == kept
    left[0] = 1000
    assert draw_into(store, target, lm, 200) == 40
    assert hashes(store) == hashes(whole)
    longer = begun(tmp_path / "longer", 1)
    draw_into(longer, target, lm, 300)
    assert draw_into(store, target, lm, 300) == 108  # 192 of the 200 begin where they would have
    assert hashes(store) == hashes(longer)
