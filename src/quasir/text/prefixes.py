"""The tokens that a causal model reads before the first one it draws: a prompt or a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quasir.core.arguments import show
from quasir.core.formatting import escaped
from quasir.errors import InputError

__all__ = ["Chat", "as_chat", "prefix_of"]

Chat = tuple[tuple[str, str], ...]
"""Messages as (role, content)."""


def as_chat(chat: Any) -> Chat | None:
    """Return checked messages.

    Raises
    ------
    InputError
        If they are not a list of mappings with the texts role and content.

    Examples
    --------
    >>> as_chat([{"role": "user", "content": "Why?"}])
    (('user', 'Why?'),)
    """
    if chat is None:
        return None
    listed = list(chat) if isinstance(chat, Sequence) and not isinstance(chat, str) else []
    messages = []
    for message in listed:
        pair = message
        if isinstance(message, Mapping):
            pair = (message.get("role"), message.get("content")) if len(message) == 2 else ()
        if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            listed = []
            break
        messages.append((str(pair[0]), str(pair[1])))
    if not listed:
        raise InputError(
            f"chat is {show(chat)}, but must be a list of messages such as "
            "{'role': 'user', 'content': 'Why?'}."
        )
    return tuple(messages)


def prefix_of(tokenizer: Any, prompt: str | None, chat: Chat | None, name: str | None) -> list[int]:
    """Return the token ids before a text.

    Without a chat, it is the beginning-of-sequence token (the end-of-sequence token if there is
    none) and the prompt. A chat goes through the tokenizer's own template, up to where the
    assistant's answer begins.

    Raises
    ------
    InputError
        If the tokenizer has no template for a chat, or nothing precedes the text.
    """
    if chat is not None:
        return _templated(tokenizer, chat, name)
    start = tokenizer.bos_token_id
    start = tokenizer.eos_token_id if start is None else start
    ids = [] if prompt is None else tokenizer(prompt, add_special_tokens=False).input_ids
    prefix = [*([] if start is None else [start]), *ids]
    if not prefix:
        raise InputError(
            "this tokenizer has neither a beginning- nor an end-of-sequence token, so the "
            "model has no input for the first token: give a prompt."
        )
    return prefix


def _templated(tokenizer: Any, chat: Chat, name: str | None) -> list[int]:
    model = "this model" if name is None else escaped(name)
    if getattr(tokenizer, "chat_template", None) is None:
        raise InputError(
            f"{model} has no chat template, so it cannot be given a chat: it was not made for "
            "chats. Give it a prompt, or take a model that was (an instruct model)."
        )
    messages = [{"role": role, "content": content} for role, content in chat]
    try:
        written = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        ids: list[int] = tokenizer(written, add_special_tokens=False).input_ids
    except Exception as error:  # a template is code of the model's makers, and raises what it likes
        raise InputError(
            f"the chat template of {model} refuses this chat: {escaped(str(error), 200)}. Its "
            f"roles are {', '.join(escaped(role) for role, _ in chat)}."
        ) from error
    if not ids:
        raise InputError(f"the chat template of {model} gives no token for this chat.")
    return ids
