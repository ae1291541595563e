"""The figures of `json_mode.py`."""

import numpy as np
from matplotlib.figure import Figure

import quasir as qr

MODEL, MASKED, ROUNDS = "#0072b2", "#d55e00", "#009e73"


def plot_choices(chosen, file):
    """Draw the exact probability of each option, under the model and under masks."""
    figure = Figure(figsize=(7.5, 3.2), layout="constrained", dpi=160)
    axes = figure.subplots(1, len(chosen), sharey=True)
    for ax, (question, options) in zip(axes, chosen.items(), strict=True):
        place = np.arange(len(options))
        own, drawn = np.array(list(options.values())).T
        ax.bar(place - 0.2, own, 0.38, color=MODEL, label="the model, restricted to the options")
        ax.bar(place + 0.2, drawn, 0.38, color=MASKED, label="masked decoding")
        ax.set_xticks(place, options)
        ax.set_title(question.replace("? ", "?\n"), fontsize="x-small")
        ax.grid(axis="y", alpha=0.25)
    axes[0].set_ylabel("Probability")
    _legend(figure, axes[0])
    figure.savefig(file)


def plot_schema(draws, hobbies, learnt, file):
    """Draw the trade-off of plain masking, the shares of a field, and the rounds of the trie."""
    figure = Figure(figsize=(9, 3.2), layout="constrained", dpi=160)
    left, middle, right = figure.subplots(1, 3)
    curve = qr.tradeoff(draws)
    left.plot(curve.acceptance_rate.value, curve.tvd.value, color=MODEL, linewidth=1.5)
    low, high = curve.tvd.low, curve.tvd.high
    left.fill_between(curve.acceptance_rate.value, low, high, color=MODEL, alpha=0.15, linewidth=0)
    plain, exact = curve.proposal.tvd.value, curve.at(tvd=0).acceptance_rate.value
    left.plot(1.0, plain, "*", color=MASKED, markersize=9)
    left.annotate("JSON mode", (1.0, plain), (-8, 6), textcoords="offset points", ha="right")
    left.plot(exact, 0.0, "o", color=ROUNDS)
    left.annotate("exact", (exact, 0.0), (6, 6), textcoords="offset points")
    left.set_xlabel("Acceptance rate")
    left.set_ylabel("TVD to the model's own JSON")
    place = np.arange(len(hobbies))
    q, q_se, p, p_se = np.array(list(hobbies.values())).T
    bars = {"capsize": 2, "error_kw": {"linewidth": 0.8}}
    middle.bar(place - 0.2, p, 0.38, yerr=p_se, color=MODEL, label="the model", **bars)
    middle.bar(place + 0.2, q, 0.38, yerr=q_se, color=MASKED, label="JSON mode", **bars)
    middle.set_xticks(place, hobbies, fontsize="small")
    middle.set_ylabel("Share of the texts")
    middle.legend(frameon=False, fontsize="small")
    seen, tvd, tvd_se, rate, rate_se = np.array(learnt).T
    style = {"capsize": 2, "linewidth": 1.2, "markersize": 4}
    right.errorbar(seen, rate, rate_se, marker="o", color=ROUNDS, label="exact: accepted", **style)
    right.errorbar(seen, tvd, tvd_se, marker="s", color=MASKED, label="plain use: TVD", **style)
    right.set_ylim(bottom=0)
    right.set_xlabel("Draws that the trie has learnt from")
    right.legend(frameon=False, fontsize="small")
    for ax in (left, middle, right):
        ax.grid(alpha=0.25)
    figure.savefig(file)


def _legend(figure, ax):
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize="small"
    )
