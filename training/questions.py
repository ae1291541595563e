"""Train the built-in model `quasir/questions`, and export it for `transformers`.

A GPT-2 learns the questions that people ask: the base a(x) of the paraphrases (section 3.3). The
options and the seed determine a run. If it is stopped, the same command resumes it from its last
checkpoint, and the result is the same as without the stop.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from causal import CausalOptions, NextToken
from causal_card import About, export_and_judge
from command_line import add_options, read_options
from corpus import kept_tokenizer
from splitting import key_of, split_questions
from trainer import train

ABOUT = About(
    name="questions",
    writes="questions",
    data="""Questions of the Quora question pairs. The questions that pairs connect form a group. By
a hash, 8 % of the groups were held out, and 2 % chose the step.""",
    terms="for research (the Quora question pairs)",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(CausalOptions):
    """The options that, with the data, determine a run."""

    steps: int = 1200
    decay: int = 500
    batch: int = 128
    layers: int = 3
    context: int = 48
    vocabulary: int = 5120
    precision: str = "bfloat16"


def main() -> None:
    """Train or resume training, then export on request."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/questions.py --data questions.txt.gz "
        "--pairs question_pairs.tsv.gz \\\n      --run runs/questions "
        "--export src/quasir/text/models/questions",
    )
    parser.add_argument("--pairs", type=Path, required=True, help="pairs of questions, gzipped")
    parser.add_argument("--draws", type=int, default=20_000, help="texts the card draws")
    add_options(parser, Options)
    arguments = parser.parse_args()
    options = read_options(arguments, Options)
    arguments.run.mkdir(parents=True, exist_ok=True)
    split = split_questions(arguments.data, arguments.pairs)
    training, choice, judgement = split.questions
    tokenizer = kept_tokenizer(arguments.run, training, options.vocabulary)
    task = NextToken(tokenizer, training, choice, options)
    train(task, options, arguments.run, arguments.every)
    if arguments.export:
        groups = [split.group[key_of(text)] for text in judgement]
        export_and_judge(task, arguments, judgement, groups, ABOUT)


if __name__ == "__main__":
    main()
