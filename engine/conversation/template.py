"""Makes a prompt's tokens: from a chat with the model's template, from a text, or as given.

A chat template is a program that came with the model, in Jinja's sandbox: it can reach nothing, but
it could loop for ever or fill the memory. So its time and its memory are limited.

Text that people, tools and clients write in a chat stays text, even if it spells a token that gives
the chat its structure, such as `<|im_end|>`. So does the assistant's text, except for tokens that
are not special: the assistant may have written `<think>` itself.
"""

import hashlib
import json
import os
import re
import resource
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import signature
from types import FrameType
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from engine.request import ChatMessage, Prompt, ToolCall
from models.errors import Problem
from models.in_words import size

SECONDS = 5.0  # of the processor; templates take milliseconds
MORE_BYTES = 1_000_000_000
MORE_CHARACTERS = 1 << 20  # than twice the messages' characters; tool descriptions have thousands
_REMEDY = "Choose another model, or mend the chat template in its folder."
_TOOLS = """You can call tools. They are listed here, each with a schema of its arguments:
<tools>
{tools}
</tools>
To call one, write nothing but this, with its name and its arguments as a JSON object:
<tool_call>
{{"name": "...", "arguments": {{...}}}}
</tool_call>
Its result follows as <tool_response>."""
_PRIVATE = range(0xF0000, 0xFFFFE)  # code points that mean nothing
_ESCAPED = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.I)  # JSON's spelling
_PRIVATE_LETTER = re.compile(f"[{chr(_PRIVATE.start)}-{chr(_PRIVATE.stop - 1)}]")
_MISTRAL = "[TOOL_CALLS]"
_MISTRAL_ID = re.compile(r"[A-Za-z0-9]{9}")


class _TooLong(BaseException):
    """The time is over. Not an `Exception`, so that no filter of the template catches it."""


@dataclass(frozen=True, slots=True)
class _Shield:
    """Marks the names of tokens in the texts of a chat, so that they are encoded as text.

    `names` are found by `ours` in the assistant's messages, and by `theirs` in all other text.
    `before` and `behind` are characters that no text of the prompt has.
    """

    names: frozenset[str]
    ours: re.Pattern[str]
    theirs: re.Pattern[str]
    before: str
    behind: str

    def over(self, value: Any, *, of_assistant: bool = False) -> Any:
        """`value`, plain JSON, with the names marked in all its texts."""
        found = self.ours if of_assistant else self.theirs
        return _mapped(value, lambda text: found.sub(rf"{self.before}\g<0>{self.behind}", text))

    def pieces(self, rendered: str) -> Iterator[tuple[str, bool]]:
        """Split a rendered chat into (part, whether it is a marked name that must stay text).

        A template may cut a text, so a mark may lack its other half: then it only separates.
        """
        parts = re.split(f"([{self.before}{self.behind}])", rendered)
        for mark, part in zip(["", *parts[1::2]], parts[::2], strict=True):
            if part:
                yield part, mark == self.before and part in self.names


def encode_prompt(tokenizer: Any, prompt: Prompt) -> list[int]:
    """The prompt in tokens. Raises `Problem`, as `render` does.

    If a chat's last message is the assistant's, the answer continues it. A text gets the token
    that begins texts of this tokenizer, if there is one.
    """
    if prompt.tokens:
        return list(prompt.tokens)
    _refuse_half_characters(prompt)
    if not prompt.messages:
        return _begun(tokenizer, _encode(tokenizer, prompt.text))
    return [
        token
        for number, piece in enumerate(pieces(tokenizer, prompt))
        for token in _encode(tokenizer, piece, first=number == 0)
    ]


def pieces(tokenizer: Any, prompt: Prompt) -> Iterator[str]:
    """Yield a chat in pieces that are encoded one by one. Raises `Problem`, as `render` does."""
    prompt = _telling_of_tools(tokenizer, prompt)
    shield = _shield(tokenizer, prompt)
    if tokenizer.has_chat_template:
        rendered = _rendered(tokenizer, prompt, shield)
    else:
        rendered = "\n\n".join(shield.over(message.content) for message in prompt.messages)
    for piece, plain in shield.pieces(rendered):
        # The halves of a name spell no token.
        yield from filter(None, (piece[:1], piece[1:])) if plain else (piece,)


def render(
    tokenizer: Any, prompt: Prompt, *, seconds: float = SECONDS, more_bytes: int = MORE_BYTES
) -> str:
    """A chat as text, by the tokenizer's template. The assistant's last message is continued.

    Raises `Problem` if the template refuses the messages, or takes more than `seconds` of processor
    time or `more_bytes` of memory. The time is limited in the main thread only, the memory on
    Linux only.
    """
    shield = _shield(tokenizer, prompt)
    text = _rendered(tokenizer, prompt, shield, seconds=seconds, more_bytes=more_bytes)
    return "".join(piece for piece, _ in shield.pieces(text))


def ends_of_answers(tokenizer: Any) -> frozenset[int]:
    """The special token that the template puts behind an assistant's text; none if it puts none.

    A token that also stands between reasoning and text ends no answer, such as gpt-oss's <|end|>.
    """
    if not tokenizer.has_chat_template:
        return frozenset()
    thought, answer = "firstthought", "thenanswer"
    asked = {"role": "user", "content": "question"}
    reasoned = {"reasoning_content": thought, "thinking": thought}
    texts = []
    for more in ({}, reasoned):
        written = {"role": "assistant", "content": answer, **more}
        try:
            with _limited_memory(MORE_BYTES), _limited_time(SECONDS):
                texts.append(
                    tokenizer.apply_chat_template(
                        [asked, written], add_generation_prompt=False, tokenize=False
                    )
                )
        except (Exception, _TooLong):  # a template that refuses this chat says nothing about ends
            return frozenset()
    behind = texts[0].rpartition(answer)[2].lstrip() if answer in texts[0] else ""
    between = texts[1].partition(thought)[2].partition(answer)[0]
    found = {
        token.content: number
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special and behind.startswith(token.content) and token.content not in between
    }
    return frozenset({found[max(found, key=len)]} if found else ())


def _rendered(
    tokenizer: Any,
    prompt: Prompt,
    shield: _Shield,
    *,
    seconds: float = SECONDS,
    more_bytes: int = MORE_BYTES,
) -> str:
    """The template's text of a chat, with the shield's marks in it.

    Some templates accept only one call a message, or no content beside reasoning and a call. If a
    template refuses the chat, it gets the chat again in messages of that kind.
    """
    prompt = _telling_of_tools(tokenizer, prompt)
    mistral = _MISTRAL in _template(tokenizer)
    tools = shield.over(_json(prompt.tools, list, "tools"))
    options = shield.over(_json(prompt.options, dict, "template options") or {})
    _refuse_own_parameters(options)
    going_on = prompt.messages[-1].role == "assistant"

    def made_of(messages: Sequence[ChatMessage]) -> str:
        text: str = tokenizer.apply_chat_template(
            [
                shield.over(one, of_assistant=one["role"] == "assistant")
                for one in _messages(messages, mistral=mistral)
            ],
            tools=tools or None,
            add_generation_prompt=not going_on,
            continue_final_message=going_on,
            tokenize=False,
            **options,
        )
        return text

    try:
        with _limited_memory(more_bytes), _limited_time(seconds):
            try:
                text = made_of(prompt.messages)
            except TemplateError:
                simpler = _one_call_each(prompt.messages)
                if simpler == prompt.messages:
                    raise
                text = made_of(simpler)
    except _TooLong:
        raise Problem(
            f"The model's chat template does not end: it was stopped after {seconds:g} seconds.",
            _REMEDY,
        ) from None
    except MemoryError:
        raise Problem(
            f"The model's chat template wants more than {size(more_bytes)} of memory.",
            _REMEDY,
        ) from None
    except Exception as error:  # whatever the program raises
        reason = " ".join(str(error).split()).rstrip(".")
        raise Problem(
            f"The model's chat template refuses these messages: {reason}.",
            "Start with a user message, and let user and assistant take turns.",
        ) from error
    given = sum(len(message.content) + len(message.reasoning) for message in prompt.messages)
    given += len(prompt.tools)
    if len(text) > 2 * given + MORE_CHARACTERS:
        raise Problem(
            f"The model's chat template makes {len(text):,} characters of {given:,}.", _REMEDY
        )
    return text


def _telling_of_tools(tokenizer: Any, prompt: Prompt) -> Prompt:
    """Write tools, calls and results into the messages, if the template knows none of them.

    The notation is that of Hermes' models; replies of such a model are parsed by it too.
    """
    template = _template(tokenizer)
    if "tools" in template or "tool_calls" in template:
        return prompt
    messages: list[ChatMessage] = []
    behind_result = False
    for message in prompt.messages:
        plain = _without_calls(message)
        if behind_result and plain.role == "user":  # some templates insist on turns
            plain = replace(plain, content=f"{messages.pop().content}\n{plain.content}")
        messages.append(plain)
        behind_result = message.role == "tool"
    tools = _json(prompt.tools, list, "tools") or []
    if tools:
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        messages.insert(0, ChatMessage("system", _TOOLS.format(tools=listed)))
    return replace(prompt, messages=tuple(messages), tools="")


def _without_calls(message: ChatMessage) -> ChatMessage:
    if message.role == "tool":
        return ChatMessage("user", f"<tool_response>\n{message.content}\n</tool_response>")
    if not message.tool_calls:
        return message
    written = [message.content] if message.content else []
    for call in message.tool_calls:
        arguments = _json(call.arguments, dict, f"arguments of {call.name}") or {}
        written_call = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
        written.append(f"<tool_call>\n{written_call}\n</tool_call>")
    return replace(message, content="\n".join(written), tool_calls=())


def _messages(messages: Sequence[ChatMessage], *, mistral: bool) -> list[dict[str, Any]]:
    """The messages in the form that templates expect, with at most one system message, first."""
    system = [message.content for message in messages if message.role == "system"]
    found: list[dict[str, Any]] = []
    if system:
        found.append({"role": "system", "content": "\n\n".join(filter(None, system))})
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    for message in messages:
        if message.role == "system":
            continue
        one: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.reasoning:  # by the names that Qwen's templates, and OpenAI's and LFM2's know
            one |= {"reasoning_content": message.reasoning, "thinking": message.reasoning}
        if message.tool_calls:
            one["tool_calls"] = [_call(call, mistral=mistral) for call in message.tool_calls]
        if message.role == "tool":
            one["tool_call_id"] = _call_id(message.tool_call_id, mistral=mistral)
            one["name"] = message.name or names.get(message.tool_call_id, "")
        found.append(one)
    return found


def _one_call_each(messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
    """The messages with each call in a message of its own, and its result right behind it."""
    results = {message.tool_call_id: message for message in messages if message.role == "tool"}
    found: list[ChatMessage] = []
    for message in messages:
        if message.role == "tool" and message in found:
            continue
        if not message.tool_calls:
            found.append(message)
            continue
        content, reasoning = message.content, "" if message.content else message.reasoning
        for call in message.tool_calls:
            alone = replace(message, content=content, reasoning=reasoning, tool_calls=(call,))
            found.append(alone)
            if len(message.tool_calls) > 1 and call.id in results:
                found.append(results[call.id])
            content = reasoning = ""
    return tuple(found)


def _call(call: ToolCall, *, mistral: bool) -> dict[str, Any]:
    arguments = _json(call.arguments, dict, f"arguments of {call.name}") or {}
    function = {"name": call.name, "arguments": arguments}
    return {"id": _call_id(call.id, mistral=mistral), "type": "function", "function": function}


def _call_id(id: str, *, mistral: bool) -> str:
    """The id in a form that the template accepts: Mistral's want nine letters and digits."""
    if not mistral or _MISTRAL_ID.fullmatch(id):
        return id
    return hashlib.sha256(id.encode()).hexdigest()[:9]


def _json[T](text: str, kind: type[T], what: str) -> T | None:
    """Parse a JSON text into a `kind`; None for an empty text. Raises `Problem`."""
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(f"The {what} are not JSON: {error}.", "Send valid JSON.") from None
    if not isinstance(value, kind):
        form = "object" if kind is dict else "list"
        raise Problem(f"The {what} are no JSON {form}.", f"Send a JSON {form}.")
    return value


def _refuse_own_parameters(options: Mapping[str, Any]) -> None:
    """Refuse options that are not the template's variables: they could replace the template."""
    taken = signature(PreTrainedTokenizerBase.apply_chat_template).parameters.keys()
    for name in options:
        if name in taken or name == "messages":
            raise Problem(
                f"{name} is no variable of a chat template.", "Leave it out of the options."
            )


def _template(tokenizer: Any) -> str:
    """The source of the template, or of all templates if there are several."""
    template = tokenizer.chat_template or ""
    return template if isinstance(template, str) else "\n".join(template.values())


def _shield(tokenizer: Any, prompt: Prompt) -> _Shield:
    template = _template(tokenizer)
    tokens = tokenizer.added_tokens_decoder.values()
    special = {token.content for token in tokens if token.special}
    spelled = {token.content for token in tokens if token.content in template}
    names = special | {name for name in spelled if not name.isspace()}
    free = unused_letters(prompt)
    return _Shield(
        names=frozenset(names),
        ours=_any_of(special),
        theirs=_any_of(names),
        before=next(free),
        behind=next(free),
    )


def unused_letters(prompt: Prompt) -> Iterator[str]:
    """Yield private letters that no text of the prompt has, not even in JSON's \\u spelling:
    arguments of calls are decoded before they are rendered."""
    used = {ord(letter) for text in _texts(prompt) for letter in _PRIVATE_LETTER.findall(text)}
    for text in _texts(prompt):
        for high, low in _ESCAPED.findall(text):
            used.add(0x10000 + (int(high, 16) - 0xD800) * 0x400 + int(low, 16) - 0xDC00)
    return (chr(code) for code in _PRIVATE if code not in used)


def _any_of(names: Collection[str]) -> re.Pattern[str]:
    """A pattern that finds the longest of these names at a place."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or "(?!)")


def _texts(prompt: Prompt) -> Iterator[str]:
    """Everything that a client wrote."""
    yield from (prompt.text, prompt.tools, prompt.options)
    for message in prompt.messages:
        yield from (message.content, message.reasoning, message.name, message.tool_call_id)
        for call in message.tool_calls:
            yield from (call.id, call.name, call.arguments)


def _refuse_half_characters(prompt: Prompt) -> None:
    if any("\ud800" <= letter <= "\udfff" for text in _texts(prompt) for letter in text):
        raise Problem("The text is not UTF-8.", "Convert it to UTF-8.")


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text changed, names of fields too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _mapped(one, change) for name, one in value.items()}
    if isinstance(value, list):
        return [_mapped(one, change) for one in value]
    return value


def _encode(tokenizer: Any, text: str, *, first: bool = True) -> list[int]:
    """Encode a text; names of special tokens become those tokens.

    SentencePiece puts a space before a text. To avoid that for a piece that is not `first`, the
    piece is encoded behind a line end, whose tokens are then removed.
    """

    def tokens_of(text: str) -> list[int]:
        # `verbose=False`: the caller refuses a long prompt, so no warning is needed.
        return list(tokenizer.encode(text, add_special_tokens=False, verbose=False))

    if first:
        return tokens_of(text)
    end, behind = tokens_of("\n"), tokens_of("\n" + text)
    return behind[len(end) :] if behind[: len(end)] == end else tokens_of(text)


def _begun(tokenizer: Any, tokens: list[int]) -> list[int]:
    """`tokens` with the token that begins a text, if this tokenizer has one and it is missing."""
    begin = tokenizer.encode("", add_special_tokens=True)[:1]
    if begin and begin == [tokenizer.bos_token_id] and tokens[:1] != begin:
        return begin + tokens
    return tokens


@contextmanager
def _limited_time(seconds: float) -> Iterator[None]:
    """Raise `_TooLong` inside the block, by a signal: it interrupts long arithmetic too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        try:
            signal.setitimer(signal.ITIMER_PROF, 0)  # it may come right here, the last time
        finally:
            signal.signal(signal.SIGPROF, before)


@contextmanager
def _limited_memory(more_bytes: int) -> Iterator[None]:
    """Let allocations raise MemoryError inside the block, once the process grew by `more_bytes`."""
    if not sys.platform.startswith("linux"):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        held = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    lowest = min((held + more_bytes, *(one for one in (soft, hard) if one >= 0)))
    resource.setrlimit(resource.RLIMIT_AS, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
