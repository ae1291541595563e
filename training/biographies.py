"""Train the built-in model `quasir/biographies`, and export it for `transformers`.

A GPT-2 of about 3 million parameters learns the openings of biographies. The options and the seed
determine a run. If it is stopped, the same command resumes it from its last checkpoint, and the
result is the same as without the stop.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from causal import Batch, CausalOptions, NextToken, export_causal, held_out_loss
from command_line import add_options, read_options
from corpus import (
    END_OF_TEXT,
    HELD_OUT_SHARE,
    encode,
    kept_tokenizer,
    read_texts,
    split_held_out,
    without_openings,
)
from tokenizers import Tokenizer
from trainer import check_exported, train, write_facts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(CausalOptions):
    """The options that, with the data, determine a run."""

    general_steps: int = 0


def prepare(
    data: Path, general: Path | None, run: Path, options: Options
) -> tuple[Tokenizer, list[str], list[str], list[str]]:
    """Return the tokenizer, and the training, general and held-out texts."""
    training, held_out = split_held_out(read_texts(data), HELD_OUT_SHARE)
    tokenizer = kept_tokenizer(run, training, options.vocabulary)
    openings = without_openings(read_texts(general), held_out) if general else []
    return tokenizer, training, openings, held_out


class Biographies(NextToken):
    """The task: predict the next token of a biography, after general texts if there are any."""

    def __init__(self, data: Path, general: Path | None, run: Path, options: Options) -> None:
        tokenizer, training, openings, unseen = prepare(data, general, run, options)
        super().__init__(tokenizer, training, unseen, options)
        self.openings = self.encoded(openings)

    def batches(self, first: int) -> Iterator[Batch]:
        """Yield the batches of the general steps, if any, and then those of the biographies."""
        general_steps = self.options.general_steps if self.openings else 0
        if first < general_steps:
            yield from islice(self.batches_of(self.openings, first), general_steps - first)
        yield from self.batches_of(self.training, max(0, first - general_steps))


def export(data: Path, run: Path, folder: Path) -> None:
    """Write the best weights of a run, in float16, as a folder that `transformers` loads."""
    saved = torch.load(run / "best.pt", weights_only=True)
    options = Options(**saved["options"])
    tokenizer, _, _, held_out = prepare(data, None, run, options)
    loaded = export_causal(saved, folder, tokenizer, options)
    unseen = encode(tokenizer, held_out, options.context)
    loss = held_out_loss(loaded, unseen, tokenizer.token_to_id(END_OF_TEXT))
    check_exported(loss["per_token"], saved["loss"])
    write_facts(
        folder,
        saved,
        data=data.name,
        held_out_texts=len(held_out),
        held_out_tokens=loss["tokens"],
        held_out_loss_per_token=loss["per_token"],
        held_out_loss_per_text=loss["per_text"],
        parameters=loaded.num_parameters(),
    )


def main() -> None:
    """Train or resume training, then export on request."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example:\n  python training/biographies.py --data biographies.txt.gz "
        "--run runs/biographies \\\n      --export src/quasir/text/models/biographies",
    )
    parser.add_argument(
        "--general", type=Path, help="texts for --general-steps, one per line, gzipped"
    )
    add_options(parser, Options)
    arguments = parser.parse_args()
    if arguments.general_steps and not arguments.general:
        raise SystemExit("--general-steps needs the texts: give --general as well")
    options = read_options(arguments, Options)
    arguments.run.mkdir(parents=True, exist_ok=True)
    task = Biographies(arguments.data, arguments.general, arguments.run, options)
    train(task, options, arguments.run, arguments.every)
    if arguments.export:
        export(arguments.data, arguments.run, arguments.export)


if __name__ == "__main__":
    main()
