"""The table as Markdown and the figure."""

import numpy as np
import pytest

from quasir.compare import compare
from quasir.compare.sampler_table import markdown, plot_comparison, samplers_markdown
from tests.compare.pools import letters


@pytest.fixture(scope="module")
def found():
    return compare(letters(12_000), ["qrs", "imh", "imh-reset"], [0.1, 0.02], n=300, runs=5)


@pytest.mark.parametrize("width", [80, 100])
def test_it_fits(found, width):
    shown = samplers_markdown(found, "letters", width)
    assert max(map(len, shown.splitlines())) <= width
    for column in ("Method", "AR", "n x runs", "draws/sample", "% vowel", "long", "% unique"):
        assert f"| {column} " in shown
    # Sizes are stated: the pool gives fewer than the 300 in 5 asked for.
    for share in found.stretches:
        assert share.n < 300
        assert f"{share.n} x {share.runs} " in shown
        assert f"At {share.cost.rate:.4g}: {share.runs} runs of {share.n} samples" in shown


def test_every_table_has_every_row(found):
    shown = samplers_markdown(found, "letters", 80)
    tables = [block for block in shown.split("\n\n") if block.startswith("|")]
    assert len(tables) > 1
    for table in tables:
        lines = table.splitlines()
        assert len({line.count("|") for line in lines}) == 1
        assert [line.split("|")[1].strip(" !") for line in lines[2:]] == [
            row.method for row in found.rows
        ]


def test_a_name_cannot_break_the_table():
    shown = markdown({"a|b": ["1\n2"], "c": ["x|y"]})
    assert shown.splitlines()[0] == "| a\\|b | c    |"
    assert shown.splitlines()[2] == "| 1 2  | x\\|y |"


def test_a_column_wider_than_the_page_has_a_table_of_its_own():
    shown = markdown({"k": ["1"], "w" * 50: ["2"], "z": ["3"]}, width=20)
    assert len(shown.split("\n\n")) == 2


def test_the_figure_has_a_panel_for_each_quantity_and_a_point_for_each_row(found):
    figure = plot_comparison(found)
    labels = [ax.get_ylabel() for ax in figure.axes]
    assert labels == [
        "% not y",
        "% vowel",
        "long",
        "% unique",
        "Self-BLEU-5, words (%)",
        "TVD to p, where known",
    ]
    unique = figure.axes[labels.index("% unique")]
    drawn = {c.get_label(): c.lines[0].get_xydata() for c in unique.containers}
    assert set(drawn) == {"proposal", "QRS", "IMH", "IMH-reset"}
    for sampler, name in (("qrs", "QRS"), ("imh", "IMH")):
        rows = sorted(
            (row for row in found.rows if row.sampler == sampler),
            key=lambda row: row.acceptance_rate,
        )
        np.testing.assert_allclose(
            drawn[name][:, 1], [100 * row.cells["unique"].runs.mean for row in rows]
        )
        # Points are set apart by a few per cent, and no more.
        np.testing.assert_allclose(
            drawn[name][:, 0], [row.acceptance_rate for row in rows], rtol=0.06
        )
