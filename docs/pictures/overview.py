"""Draw docs/overview.svg, "from a constraint to a certificate", from a run of `scientists`.

quasir run scientists
python docs/pictures/overview.py runs/scientists
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

WIDTH, HEIGHT, GAP = 318, 212, 28
STYLE = """
  svg { --card: #ffffff; --panel: #f5f7fa; --line: #d4dae1; --text: #1f2328; --soft: #59636e;
        --blue: #0068a8; --orange: #c2500a; --green: #00795a; --dot: #b6bec8; }
  @media (prefers-color-scheme: dark) {
    svg { --card: #10151c; --panel: #18202a; --line: #344050; --text: #e6edf3; --soft: #a3adb8;
          --blue: #62b0ff; --orange: #ff9d5c; --green: #4fd1a5; --dot: #566270; }
  }
  text { font: 18px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: var(--text); }
  .title { font-size: 20px; font-weight: 650; } .soft { fill: var(--soft); }
  .big { font-size: 26px; font-weight: 700; fill: var(--green); } .small { font-size: 15.5px; }
  .panel { fill: var(--panel); stroke: var(--line); }
  .chance { fill: none; stroke: var(--orange); stroke-width: 2.5; }
  .it { font-style: italic; } .end { text-anchor: end; } .mid { text-anchor: middle; }
"""


def text(x, y, words, kind=""):
    """Return a line of text."""
    return f'<text x="{x}" y="{y}" class="{kind}">{words}</text>'


def panel(number, title, *inside):
    """Return a numbered panel at its place in two columns."""
    column, row = (number - 1) % 2, (number - 1) // 2
    x, y = 12 + column * (WIDTH + GAP), 12 + row * (HEIGHT + GAP)
    arrow = ""
    if number < 6 and column == 0:
        arrow = f'<path d="M{WIDTH + 6} {HEIGHT / 2}h14m-6 -6l6 6l-6 6" class="arrow"/>'
    elif number < 6:
        arrow = f'<path d="M{-GAP / 2} {HEIGHT + 6}v14m-6 -6l6 6l6 -6" class="arrow"/>'
    return (
        f'<g transform="translate({x} {y})">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" class="panel"/>'
        f'<circle cx="26" cy="28" r="14" fill="var(--blue)"/>'
        f'<text x="26" y="34" class="mid" style="fill:var(--card);font-weight:700">{number}</text>'
        + text(50, 35, title, "title")
        + "".join(inside)
        + arrow
        + "</g>"
    )


def points(x, y, kind):
    """Return dots."""
    return "".join(
        f'<circle cx="{a:.0f}" cy="{b:.0f}" r="3" fill="var(--{kind})"/>'
        for a, b in zip(x, y, strict=True)
    )


def main(run):
    """Read the run, and write the picture."""
    cert = json.loads((run / "certificate.json").read_text())
    shards = [pq.read_table(path).to_pandas() for path in sorted((run / "draws").glob("*.parquet"))]
    draws, some = sum(map(len, shards)), shards[0]
    log_ratio, u = (some.log_p - some.log_q).to_numpy(), np.exp(some.log_u.to_numpy())
    beta, rate = cert["beta"], cert["acceptance_rate"]["value"]

    rng = np.random.default_rng(0)
    shown = np.flatnonzero(np.isfinite(log_ratio) & (np.exp(log_ratio) < 1.6 * beta))[:110]
    ratio, height = np.exp(log_ratio[shown]) / beta, u[shown]
    px, py = 22 + ratio / 1.6 * 262, 166 - height * 104
    kept = height < ratio
    cut = 22 + 262 / 1.6
    accept = (
        points(px[~kept], py[~kept], "dot")
        + points(px[kept], py[kept], "blue")
        + f'<path d="M22 166L{cut:.0f} 62H296" class="chance"/>'
        + text(296, 196, "P(x)/(β q(x))", "small soft end")
        + text(22, 196, "kept: below the line", "small")
    )
    places = rng.random((2, 130))
    possible = rng.random(130) < float(np.isfinite(log_ratio).mean())
    px, py = 22 + places[0] * 262, 58 + places[1] * 84
    proposals = points(px[~possible], py[~possible], "dot") + points(
        px[possible], py[possible], "blue"
    )

    with (run / "tradeoff.csv").open() as file:
        rows = list(csv.DictReader(file))
    ar = np.array([float(row["acceptance_rate"]) for row in rows])
    tvd = np.array([float(row["tvd"]) for row in rows])
    cx, cy = 50 + ar / 0.42 * 236, 158 - tvd / 0.37 * 100
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(cx, cy, strict=True))
    at = 50 + rate / 0.42 * 236, 158 - cert["tvd"]["value"] / 0.37 * 100
    tradeoff = (
        '<path d="M50 52V158H290" fill="none" stroke="var(--line)" stroke-width="2"/>'
        f'<polyline points="{line}" fill="none" stroke="var(--blue)" stroke-width="3"/>'
        f'<circle cx="{at[0]:.0f}" cy="{at[1]:.0f}" r="7" fill="var(--orange)"/>'
        + text(at[0] + 14, at[1] + 8, "your β", "small")
        + text(14, 66, "TVD", "small soft")
        + text(290, 182, "share that is kept", "small soft end")
        + text(22, 202, "every β from the same draws", "small")
    )
    women, confidence = cert["moments"]["female"]["value"], cert["guarantee"]["confidence"]
    body = [
        panel(
            1,
            "Base: your model",
            text(22, 76, "“… was a footballer. He …”", "it soft"),
            text(22, 106, "“… is a French poet who …”", "it soft"),
            text(22, 136, "“… was a chemist. She …”", "it soft"),
            text(22, 184, "8 % of its scientists: women"),
        ),
        panel(
            2,
            "Constraint",
            text(22, 80, "every text: a scientist"),
            text(22, 110, "half of the texts: women"),
            text(22, 152, "Nothing else changes: the target", "soft small"),
            text(22, 174, "P(x) is the closest to your model", "soft small"),
            text(22, 196, "that has this.", "soft small"),
        ),
        panel(
            3,
            "Proposals",
            proposals,
            text(22, 172, f"{draws:,} draws of q(x), each with its", "small"),
            text(22, 194, "ratio P(x)/q(x); grey: P(x) = 0", "small"),
        ),
        panel(4, "Accept at β", accept),
        panel(5, "Trade-off", tradeoff),
        panel(
            6,
            "Certificate",
            text(22, 86, f"TVD ≤ {cert['guarantee']['tvd']:g}", "big"),
            text(182, 85, f"{confidence:.0%}".replace("%", " % confidence"), "soft small"),
            text(22, 120, f"kept: {rate:.1%} of the draws".replace("%", " %")),
            text(22, 148, f"women: {women:.1%} of the samples".replace("%", " %")),
            text(22, 180, "No frequency is off by more than", "soft small"),
            text(22, 200, "10 percentage points.", "soft small"),
        ),
    ]
    width, height = 2 * WIDTH + GAP + 24, 3 * HEIGHT + 2 * GAP + 24
    label = (
        "From a constraint to a certificate, in six steps: your model; what you want; draws of a "
        "proposal with their ratios; accept with probability P/(beta q), at most 1; the trade-off "
        f"of distance against cost; the certificate: TVD at most 0.1, {rate:.1%} of the draws "
        f"kept, {women:.1%} women."
    )
    arrow = ".arrow { fill: none; stroke: var(--soft); stroke-width: 2.5; stroke-linecap: round; }"
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{label}"><style>{STYLE}{arrow}</style>'
        f'<rect width="{width}" height="{height}" rx="16" fill="var(--card)"/>'
        + "\n".join(body)
        + "</svg>\n"
    )
    (Path(__file__).parents[1] / "overview.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
