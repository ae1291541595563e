"""Train the built-in model `quasir/general`, and export it for `transformers`.

A GPT-2 of about 3.6 million parameters learns passages of encyclopaedia pages and film reviews. A
passage starts where a sentence starts. The options and the seed determine a run. If it is stopped,
the same command resumes it from its last checkpoint; `--steps` may change until the decay begins.
"""

from __future__ import annotations

import argparse
import dataclasses
import re

from causal import CausalOptions, NextToken
from causal_card import About, export_and_judge
from command_line import add_options, read_options
from corpus import kept_tokenizer, read_texts
from splitting import split_by
from trainer import train

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"'(])")
WORDS = 40
"""A passage ends with the sentence that brings it to this many words."""
CHOOSING = 1500
"""Passages that are measured during a run."""
ABOUT = About(
    name="general",
    writes="passages of encyclopaedia pages and film reviews",
    data=f"""English encyclopaedia pages from Wikipedia (CC BY-SA), gathered from public research
repositories, and film reviews (the Large Movie Review Dataset). Documents are cut into passages of
whole sentences, each of at least {WORDS} words. 2 % of the documents, by a hash, were held out, and
1 % chose the step.""",
    terms="CC BY-SA for the encyclopaedia text; for research for the film reviews",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(CausalOptions):
    """The options that, with the data, determine a run."""

    steps: int = 12_000
    decay: int = 1500
    layers: int = 5
    vocabulary: int = 7168
    dropout: float = 0.0
    precision: str = "bfloat16"


def passages(document: str, words: int = WORDS) -> list[str]:
    """Cut a document into passages of whole sentences; a short last one is left out."""
    found, sentences, length = [], [], 0
    for sentence in SENTENCE_END.split(document):
        sentences.append(sentence)
        length += len(sentence.split())
        if length >= words:
            found.append(" ".join(sentences))
            sentences, length = [], 0
    return found


def main() -> None:
    """Train or resume training, then export on request."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/general.py --data general.txt.gz "
        "--run runs/general \\\n      --export src/quasir/text/models/general",
    )
    parser.add_argument("--draws", type=int, default=100_000, help="texts the card draws")
    add_options(parser, Options)
    arguments = parser.parse_args()
    options = read_options(arguments, Options)
    arguments.run.mkdir(parents=True, exist_ok=True)
    # A hash of a document decides, so its passages are all in one part.
    documents = split_by(read_texts(arguments.data), key=str)
    training, choice, judgement = ([passages(text) for text in part] for part in documents)
    flat = [passage for document in training for passage in document]
    tokenizer = kept_tokenizer(arguments.run, flat, options.vocabulary)
    choosing = [passage for document in choice for passage in document[:3]][:CHOOSING]
    task = NextToken(tokenizer, flat, choosing, options)
    train(task, options, arguments.run, arguments.every)
    if arguments.export:
        judged = [(text, number) for number, part in enumerate(judgement) for text in part]
        texts, groups = zip(*judged, strict=True)
        export_and_judge(task, arguments, texts, groups, ABOUT)


if __name__ == "__main__":
    main()
