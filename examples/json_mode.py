"""What JSON mode does to a model: SmolLM2-135M-Instruct and a schema of three fields.

Three things are measured. How far masked decoding is from the model restricted to the schema, and
what exact samples cost. What masks do to a choice of two options, exactly, by listing every
token sequence that spells them. And how a trie learnt from draws closes the gap, by rounds.

    python examples/json_mode.py --out runs/json-mode

If it is stopped, the same command goes on.
"""

import argparse
from pathlib import Path

import numpy as np

import quasir as qr
from kept_draws import kept_draws

HOBBIES = ["chess", "music", "cooking", "football"]
SCHEMA = {
    "type": "object",
    "properties": {
        "hobby": {"enum": HOBBIES},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "name": {"type": "string"},
    },
    "required": ["hobby", "age", "name"],
    "additionalProperties": False,
}
# The text of the chat template, without its first token, which the model gets anyway.
TURN = "<|im_end|>\n<|im_start|>"
PROMPT = (
    "user\nA hobby (chess, music, cooking or football), an age and a name, as JSON."
    f'{TURN}assistant\n{{"hobby": "music", "age": 31, "name": "Ann"}}'
    f"{TURN}user\nAnother.{TURN}assistant\n"
)
QUESTIONS = {
    "Is Paris in France? Answer Yes or No.": ["Yes", "No"],
    "Is Paris in France? Answer Yes or Not sure.": ["Yes", "Not sure"],
    "Is a whale a fish? Answer Yes or No.": ["Yes", "No"],
    "Is a whale a fish? Answer Yes or Not sure.": ["Yes", "Not sure"],
}
TVDS = (0.2, 0.15, 0.1, 0.05)


def masked(target, q, n, out):
    """Print what plain masking does, and what it costs to undo it; return the draws."""
    draws = kept_draws(target, q, n, 0, out / "masked")
    curve = qr.tradeoff(draws)
    print(curve)
    z, first = curve.at(tvd=0).z, float(np.exp(q.log_most_base_ratio(q.base, target)))
    print(f"\nplain masking: TVD {curve.proposal.tvd}")
    print(f"filtering the model accepts Z = {z}")
    print(
        f"the first mask leaves G_1 = {first:.4f}; exact samples at Z/G_1 = {z.value / first:.4f}"
    )
    for tvd in TVDS:
        try:
            print(f"at TVD {tvd:g}: acceptance {curve.at(tvd=tvd).acceptance_rate}")
            guaranteed = curve.at(tvd=tvd, confidence=0.95).acceptance_rate
            print(f"  guaranteed, with confidence 0.95: acceptance {guaranteed}")
        except qr.errors.UnreachableError as error:
            print(f"at TVD {tvd:g}: {error}")
    return draws


def shares(draws):
    """Print and return the share of each hobby under plain masking and under the model itself."""
    weight = np.exp(draws.log_ratio)
    weight /= weight.sum()
    texts = [item.text for item in draws.items]
    print("\nhobby      masking          the model")
    rows = {}
    for hobby in HOBBIES:
        has = np.array([f'"{hobby}"' in text for text in texts], dtype=float)
        q, p = has.mean(), weight @ has
        rows[hobby] = q, np.sqrt(q * (1 - q) / len(has)), p, np.sqrt(weight**2 @ (has - p) ** 2)
        print("{:<9}  {:.3f} ± {:.3f}    {:.3f} ± {:.3f}".format(hobby, *rows[hobby]))
    return rows


def odd_spellings(draws, tokenizer, n=5):
    """Print texts that masking writes far more often than the model does, token by token."""
    print("\ntexts that the model hardly ever writes so, with P/q, where the largest P/q is")
    print(f"{np.exp(draws.log_ratio.max()):.2g}:")
    possible = np.flatnonzero(draws.log_p > -np.inf)
    for i in possible[np.argsort(draws.log_ratio[possible])][:n].tolist():
        pieces = "|".join(tokenizer.decode([token]) for token in draws.items[i].token_ids)
        print(f"  {np.exp(draws.log_ratio[i]):.1e}  {pieces!r}")
    lost = int((draws.log_p == -np.inf).sum())
    print(f"{lost} of {len(draws)} masked texts were cut before their JSON ended")


def rounds(target, q, draws, n, number, out):
    """Let a trie learn from n draws a round; print and return what each round is worth.

    The first round learns from the plain masked draws that are given.
    """
    print(f"\n{'learnt from':>11}  {'plain TVD':>15}  {'c(root)':>8}  exact samples accepted")
    rows = []
    for done in range(number + 1):
        if done:
            draws = kept_draws(target, q, n, 1_000 * done, out / f"round-{done}")
        curve = qr.tradeoff(draws)
        tvd, rate = curve.proposal.tvd, curve.at(tvd=0).acceptance_rate
        rows.append((done * n, tvd.value, tvd.se, rate.value, rate.se))
        most = np.exp(draws.log_ceiling)
        print(f"{done * n:>11,}  {tvd.value:>7.3f} ± {tvd.se:.3f}  {most:>8.4g}", end="")
        print(f"  {rate.value:.4f} ± {rate.se:.4f}", flush=True)
        if done < number:
            learnt = out / f"trie-{done + 1}.json"
            if not learnt.exists():
                q.learn(draws.take(range(n))).guide.save(learnt)
            q = target.base.guided(qr.guides.load(learnt))
    return rows


def pieces_of(tokenizer):
    """Return the tokens that each string can be spelled with, one token long."""
    pieces = {}
    for token in range(len(tokenizer)):
        if token not in tokenizer.all_special_ids:
            pieces.setdefault(tokenizer.decode([token]), []).append(token)
    return pieces


def spellings(text, pieces):
    """Return every sequence of tokens that spells a text."""
    if not text:
        return [()]
    return [
        (token, *rest)
        for stop in range(1, len(text) + 1)
        for token in pieces.get(text[:stop], ())
        for rest in spellings(text[stop:], pieces)
    ]


def choice_law(lm, options, pieces):
    """Return all token sequences of some options, with their law by the model and by masks.

    Returns
    -------
    listed : list of (option, token ids)
    a, q : array
        The model's own probability of each sequence, and that of masked decoding.
    """
    listed = [(option, ids) for option in options for ids in spellings(option, pieces)]
    texts = qr.text.Texts.of([ids for _, ids in listed], lm.tokenizer)
    log_a, log_q = lm.guided(qr.guides.choice(options)).log_prob_each(texts)
    return listed, np.exp(log_a), np.exp(log_q)


def choices(base):
    """Print and return the probability of each option, by the model's own law and by masks."""
    pieces, rows = pieces_of(base.tokenizer), {}
    for question, options in QUESTIONS.items():
        lm = base.prompted(f"user\n{question}{TURN}assistant\n")
        listed, a, q = choice_law(lm, options, pieces)
        p, own, first = a / a.sum(), dict.fromkeys(options, 0.0), {}
        for (option, ids), *both in zip(listed, p, q, strict=True):
            key = option, base.tokenizer.decode([ids[0]])
            first[key] = first.get(key, 0.0) + np.array(both)
            own[option] = own[option] + np.array(both)
        print(f"\n{question}  TVD {0.5 * np.abs(p - q).sum():.3f}")
        print(f"  {len(listed)} token sequences: {a.sum():.2g} of the model's mass, ", end="")
        print(f"{q.sum():.6f} of masked decoding's")
        for option, (x, y) in own.items():
            print(f"  {option!r}: the model {x:.4f}, masked {y:.4f}; by first token:")
            for (of, token), (x, y) in sorted(first.items(), key=lambda row: -row[1][1]):
                if of == option and max(x, y) > 1e-3:
                    print(f"    {token!r}: the model {x:.4f}, masked {y:.4f}")
        rows[question] = own
    return rows


def main():
    """Measure, print, and draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=256, help="with plain masking")
    parser.add_argument("--round", type=int, default=128, help="draws that a trie learns from")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--model", default="quasir/smollm2", help="a name, a folder or a hub id")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the model itself")
    parser.add_argument("--out", type=Path, default=Path("runs/json-mode"))
    parser.add_argument("--figures", type=Path, help="folder for the figures")
    arguments = parser.parse_args()

    base = qr.text.CausalLM(
        arguments.model, max_tokens=32, prompt=PROMPT, temperature=arguments.temperature
    )
    print("== a choice of two")
    chosen = choices(base)
    guide = qr.guides.json_schema(SCHEMA)
    target, q = base * guide.feature, base.guided(guide)
    print("\n== a schema of three fields")
    draws = masked(target, q, arguments.draws, arguments.out)
    hobbies = shares(draws)
    odd_spellings(draws, base.tokenizer)
    print("\n== the trie, by rounds")
    learnt = rounds(target, q, draws, arguments.round, arguments.rounds, arguments.out)
    if arguments.figures:
        from json_mode_figures import plot_choices, plot_schema

        arguments.figures.mkdir(parents=True, exist_ok=True)
        plot_choices(chosen, arguments.figures / "json-mode-choice.png")
        plot_schema(draws, hobbies, learnt, arguments.figures / "json-mode-schema.png")


if __name__ == "__main__":
    main()
