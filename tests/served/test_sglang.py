"""SGLang by answers in its documented format; it was not run by us."""

import math

import numpy as np
import pytest

import quasir as qr
from quasir.errors import InputError
from tests.served.double import END, START, Double, serving


class Recorded(Double):
    """Answers as the documentation of SGLang shows them (native API, `/generate`)."""

    def __init__(self):
        super().__init__(owner="sglang")
        self.bodies = []

    def post(self, path, body):
        if path != "/generate":
            return None
        self.bodies.append(body)
        how = body["sampling_params"]
        if how["max_new_tokens"] == 0:
            given = [[None if i == 0 else -0.5, t, None] for i, t in enumerate(body["input_ids"])]
            meta = {"finish_reason": {"type": "length", "length": 0}, "completion_tokens": 0}
            return {"text": "", "meta_info": meta | {"input_token_logprobs": given}}
        return {
            "text": " a b",
            "output_ids": [1, 2, END],
            "meta_info": {
                "id": "0f7f1d0c8a544e4ea2b8b2b1d0a6f7c3",
                "finish_reason": {"type": "stop", "matched": END},
                "prompt_tokens": len(body["input_ids"]),
                "completion_tokens": 3,
                "output_token_logprobs": [[-0.25, 1, None], [-1.5, 2, None], [-0.75, END, None]],
                "input_token_logprobs": [],
            },
        }


class Tokenizer:
    eos_token_id, bos_token_id = END, START

    def __call__(self, text, add_special_tokens=False):
        return type("Encoded", (), {"input_ids": [1 + len(text) % 3]})


@pytest.fixture
def double():
    return Recorded()


@pytest.fixture
def model(double):
    with serving(double) as url:
        yield qr.text.Served(url, tokenizer=Tokenizer(), max_tokens=4, prompt="ab", trust=True)


def test_a_draw_is_read_with_its_end(double, model):
    texts, log_q = model.sample(1, np.random.default_rng(0))
    assert (texts.token_ids(0).tolist(), log_q[0]) == ([1, 2], -2.5)
    body = double.bodies[-1]
    assert body["input_ids"] == [START, 3]
    assert body["return_logprob"] is True
    assert body["sampling_params"]["stop_token_ids"] == [END]
    assert body["sampling_params"]["sampling_seed"] == int(
        np.random.default_rng(0).random() * 2**53
    )


def test_given_ids_are_scored_with_the_end_and_without_the_prompt(double, model):
    texts = qr.text.Texts.of([[1, 2], [1, 2, 3, 4]], model.tokenizer)
    assert model._score(texts).tolist() == [-1.5, -2.0]
    scored = sorted((body["input_ids"] for body in double.bodies), key=len)
    assert scored == [[START, 3, 1, 2, END], [START, 3, 1, 2, 3, 4]]
    assert {body["logprob_start_len"] for body in double.bodies} == {0}


def test_settings_that_its_numbers_leave_out_are_refused(model):
    assert math.isclose(model.varied(temperature=0.7).sampling.temperature, 0.7)
    for settings in ({"top_k": 3}, {"top_p": 0.9}):
        with pytest.raises(InputError, match=f"does not count {next(iter(settings))}"):
            model.varied(**settings)
    with pytest.raises(InputError, match="mask"):
        model.varied(mask={"regex": "a"})


def test_it_needs_a_tokenizer():
    with serving(Recorded()) as url, pytest.raises(InputError, match="give tokenizer"):
        qr.text.Served(url)
