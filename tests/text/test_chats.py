"""Chats: the tokenizer's own template, up to where the assistant's answer begins."""

import pytest

import quasir as qr
from quasir.errors import InputError
from tests.text import tiny

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'villain' %}{{ raise_exception('no villains') }}"
    "{% endif %}{{ m.role + ' ' + m.content + ' ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant' }}{% endif %}"
)
CHAT = [{"role": "system", "content": "a b"}, {"role": "user", "content": "b"}]


@pytest.fixture
def lm():
    tokens = tiny.tokenizer(("a", "b", "system", "user", "assistant"))
    tokens.chat_template = TEMPLATE
    return qr.text.CausalLM(model=tiny.gpt2(len(tokens)), tokenizer=tokens, max_tokens=3)


def test_the_template_makes_the_prefix(lm):
    chatting = lm.varied(chat=CHAT)
    words = lm.tokenizer.convert_ids_to_tokens(chatting.prefix)
    assert words == ["system", "a", "b", "user", "b", "assistant"]
    assert abs(tiny.distribution(chatting).sum() - 1) < 1e-5
    assert chatting.varied(temperature=0.5).prefix == chatting.prefix
    assert chatting.prompted("a").chat is None
    assert lm.varied(prompt="a").varied(chat=CHAT).prompt is None
    assert "chat=" in repr(chatting)


def test_a_model_without_a_template(lm):
    lm.tokenizer.chat_template = None
    with pytest.raises(InputError, match="has no chat template"):
        lm.varied(chat=CHAT)


@pytest.mark.parametrize(
    "chat", ["a", [], ["a"], [{"role": "user"}], 7, [{"role": 1, "content": "a"}]]
)
def test_what_is_no_chat(lm, chat):
    with pytest.raises(InputError, match="must be a list of messages"):
        lm.varied(chat=chat)


def test_a_template_that_refuses(lm):
    with pytest.raises(InputError, match="refuses this chat: no villains"):
        lm.varied(chat=[{"role": "villain", "content": "a"}])


def test_not_both(lm):
    with pytest.raises(InputError, match="not both"):
        lm.varied(chat=CHAT, prompt="a")
