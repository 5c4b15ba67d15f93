"""Makes a prompt's tokens: from a chat with the model's template, from a text, or as given.

A chat template is a program that came with the model, in Jinja's sandbox: it can reach nothing. It
could loop endlessly, or fill the memory: the engine is a child process that can be ended.

Text that people, tools and clients write in a chat stays text, even if it spells a token that gives
the chat its structure, such as `<|im_end|>`. So does the assistant's text, except for tokens that
are not special: the assistant may have written `<think>` itself.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from inspect import signature
from itertools import chain, islice, repeat
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase
from transformers.utils.chat_template_utils import render_jinja_template

from engine.conversation.template_abilities import TemplateAbilities, abilities_of
from engine.conversation.template_messages import (
    arguments_of,
    as_json,
    calls_in_text,
    read_json,
    sayable,
)
from engine.conversation.template_tools import in_plain_form
from engine.near_ties import alike
from engine.replies.families import FamilyRow
from engine.replies.syntax import ReplySyntax, syntax_of
from engine.request import ChatMessage, Prompt, Thinking, ToolCall
from models.errors import Problem

MORE_CHARACTERS = 1 << 20  # than twice the messages' characters; tool descriptions have thousands
_REMEDY = "Choose another model, or repair the chat template in its folder."
_PRIVATE = range(0xF0000, 0xFFFFE)  # code points that mean nothing
_ESCAPED = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.I)  # JSON's spelling
_PRIVATE_LETTER = re.compile(f"[{chr(_PRIVATE.start)}-{chr(_PRIVATE.stop - 1)}]")
_MISTRAL = "[TOOL_CALLS]"


@dataclass(frozen=True, slots=True)
class _Shield:
    """Marks the names of tokens in the texts of a chat, so that they are encoded as text.

    `names` are found by `ours` in the assistant's messages, by `written` in what the model wrote,
    whose own marks are tokens, and by `theirs` in all other text.
    `before` and `behind` are characters that no text of the prompt has. `ending` finds the
    template's tokens that end an answer.
    """

    names: frozenset[str]
    ours: re.Pattern[str]
    written: re.Pattern[str]
    theirs: re.Pattern[str]
    before: str
    behind: str
    ending: re.Pattern[str]

    def over(self, value: Any, *, of_assistant: bool = False) -> Any:
        """`value`, plain JSON, with the names marked in all its texts."""
        found = self.ours if of_assistant else self.theirs
        return _mapped(value, lambda text: self._marked(text, found))

    def _marked(self, text: str, found: re.Pattern[str]) -> str:
        return found.sub(rf"{self.before}\g<0>{self.behind}", text)

    def over_message(self, message: ChatMessage) -> ChatMessage:
        """A message with the names marked in all its texts, and arguments of calls as JSON that
        spells no letter by its number."""
        ours = message.role == "assistant"

        def over(text: str) -> str:
            return str(self.over(text, of_assistant=ours))

        calls = tuple(
            ToolCall(
                over(call.id),
                over(call.name),
                json.dumps(self.over(arguments_of(call), of_assistant=ours), ensure_ascii=False),
            )
            for call in message.tool_calls
        )
        return replace(
            message,
            content=over(message.content),
            reasoning=over(message.reasoning),
            written=self._marked(message.written, self.written),
            tool_calls=calls,
            tool_call_id=over(message.tool_call_id),
            name=over(message.name),
        )

    def pieces(self, rendered: str) -> Iterator[tuple[str, bool]]:
        """Split a rendered chat into (part, whether it is a marked name that must stay text).

        A template may cut a text, so a mark may lack its other half: then it only separates.
        """
        parts = re.split(f"([{self.before}{self.behind}])", rendered)
        for mark, part in zip(["", *parts[1::2]], parts[::2], strict=True):
            if part:
                yield part, mark == self.before and part in self.names


@dataclass(frozen=True, slots=True)
class Shown:
    """The texts of a chat's pictures, in their order, each in place of a `mark` of the template."""

    mark: str = ""
    texts: tuple[str, ...] = ()

    def over(self, pieces: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
        """The pieces of a rendered chat, as for `_Shield.pieces`, with these texts in it. Raises
        `Problem` if it has not a mark for each."""
        left, marks = chain(self.texts, repeat("")), 0
        for piece, plain in pieces:
            if plain or not self.texts:
                yield piece, plain
                continue
            before, *behind = piece.split(self.mark)
            marks += len(behind)
            yield before + "".join(next(left) + part for part in behind), False
        if marks != len(self.texts) > 0:
            raise Problem(
                "The model's chat template does not support these pictures.",
                "Choose another model, or remove the pictures.",
            )


def encode_prompt(tokenizer: Any, prompt: Prompt, shown: Shown | None = None) -> list[int]:
    """The prompt in tokens. Raises `Problem`, as `render` does.

    If a chat's last message is the assistant's, the answer continues it. A text gets the token
    that begins texts of this tokenizer, if there is one.
    """
    if prompt.tokens:
        return list(prompt.tokens)
    _refuse_half_characters(prompt)
    if not prompt.messages:
        return _begun(tokenizer, encode_piece(tokenizer, prompt.text, first=True))
    read = enumerate(pieces(tokenizer, prompt, shown))
    tokens = [token for n, piece in read for token in encode_piece(tokenizer, piece, first=n == 0)]
    return tokens if tokenizer.has_chat_template else _begun(tokenizer, tokens)


def pieces(tokenizer: Any, prompt: Prompt, shown: Shown | None = None) -> Iterator[str]:
    """Yield a chat in pieces that are encoded one by one. Raises `Problem`, as `render` does."""
    shield = _shield(tokenizer, prompt)
    plain = "\n\n".join(shield.over(message.content) for message in prompt.messages)
    rendered = _rendered(tokenizer, prompt, shield) if tokenizer.has_chat_template else plain
    for piece, named in (shown or Shown()).over(shield.pieces(rendered)):
        # The halves of a name spell no token.
        yield from filter(None, (piece[:1], piece[1:])) if named else (piece,)


def render(tokenizer: Any, prompt: Prompt) -> str:
    """A chat as text, by the tokenizer's template. The assistant's last message is continued.
    Raises `Problem` if the template refuses the messages, or writes far more than these have."""
    shield = _shield(tokenizer, prompt)
    text = _rendered(tokenizer, prompt, shield)
    return "".join(piece for piece, _ in shield.pieces(text))


def ends_of_answers(tokenizer: Any) -> frozenset[int]:
    """The special token that the template puts after an assistant's text; none if it puts none.

    A token that is also between reasoning and text, as gpt-oss's <|end|>, does not end answers.
    """
    able = abilities_for(tokenizer)
    behind = able.behind.lstrip()
    found = {
        token.content: number
        for number, token in tokenizer.added_tokens_decoder.items()
        if token.special and behind.startswith(token.content) and token.content not in able.between
    }
    return frozenset({found[max(found, key=len)]} if found else ())


def _rendered(tokenizer: Any, prompt: Prompt, shield: _Shield) -> str:
    """The template's text of a chat, with the shield's marks in it."""
    tools = shield.over(read_json(prompt.tools, list, "tools") or [])
    options = shield.over(read_json(prompt.options, dict, "template options") or {})
    _refuse_own_parameters(options)
    messages = [shield.over_message(message) for message in prompt.messages]
    try:
        asking = _Asking(tokenizer, tools, options, shield)
        *before, last = messages
        text = asking.go_on(before, last) if last.role == "assistant" else asking.begin(messages)
    except MemoryError:
        raise Problem("The model's chat template needs too much memory.", _REMEDY) from None
    except Exception as error:  # the program may raise anything
        reason = " ".join(str(error).split()).rstrip(".")
        raise Problem(
            f"The model's chat template rejects these messages: {reason}.",
            "Start with a user message, and let user and assistant take turns.",
        ) from error
    given = sum(map(len, _texts(prompt)))
    if len(text) > 2 * given + MORE_CHARACTERS:
        raise Problem(
            f"The model's chat template turns {given:,} characters into {len(text):,}.", _REMEDY
        )
    return text


class _Asking:
    """Renders chats with the template of a tokenizer, each in the form that the template takes."""

    def __init__(
        self, tokenizer: Any, tools: list[Any], options: dict[str, Any], shield: _Shield
    ) -> None:
        self._tokenizer, self._tools, self._options = tokenizer, tools, options
        self._apart = shield.behind  # around text of the model, which is encoded apart, as before
        self._ending = shield.ending
        self._abilities = abilities_for(tokenizer, tools=bool(tools))
        self._mistral = _MISTRAL in _template(tokenizer)
        found = self._abilities.notation if self._abilities.knows_tools else None
        self._syntax = reply_syntax(tokenizer, found=found)
        row = self._syntax.found
        self._notation = row.calls[0] if row else self._syntax.family
        marks = self._syntax.reasoning
        around = (marks.opening, marks.closing) if marks else ()
        names = _any_of([mark.strip() for mark in around]).pattern
        self._marks_at_end = re.compile(rf"(?:(?:{names})\s*)*\Z")

    def begin(self, messages: Sequence[ChatMessage]) -> str:
        """The chat and the beginning of an answer.

        The model's own text follows the prompt of that time unchanged, if the template now writes
        the same chat up to there, and no less of that message. White space does not count, nor do
        the marks of an empty reasoning. Otherwise the template writes the message.
        """
        plain = cache(lambda count: self._chat(messages[:count]))
        text, count = "", len(messages)
        for place in reversed(range(len(messages))):
            message = messages[place]
            if not message.written:
                continue
            behind = None
            with suppress(TemplateError):  # of a chat that no answer could begin after
                behind = self._behind(message, plain(place), plain(count))
            if behind is not None:
                text = f"{self._apart}{message.written}{self._apart}{behind}{text}"
                count = place
        return plain(count) + text

    def _behind(self, message: ChatMessage, begun: str, whole: str) -> str | None:
        """The part of a `whole` chat from the token on that ends a message, to which the prompt was
        `begun`; None if something is missing before."""
        start = _end_of(begun, whole)
        if start is None:
            start = _end_of(self._marks_at_end.sub("", begun), whole)
        if start is None:
            return None
        parts = [message.reasoning, message.content, *(call.name for call in message.tool_calls)]
        apart = message.content and message.tool_calls and not self._abilities.text_beside_calls
        for ending in islice(self._ending.finditer(whole, start), 2 if apart else 1):
            text = whole[start : ending.start()]
            if all(text.count(part.strip()) >= parts.count(part) for part in parts):
                return whole[ending.start() :]
        return None

    def _chat(self, messages: Sequence[ChatMessage], *, going_on: bool = False) -> str:
        """The chat as the template writes it, and the beginning of an answer; or, `going_on`, up
        to the last message's text.

        Some templates accept only one call a message, or no content with reasoning and a call. If
        a template refuses the chat, it gets it again in such messages, and at last with calls and
        results in text, from a question on.
        """
        able = self._abilities
        for form in (able, replace(able, several_calls=False)):
            with suppress(Exception):  # the program may raise anything
                return self._rendered(messages, form, going_on=going_on)
        in_text = replace(able, calls=False, results=False, assistant_first=False)
        return self._rendered(messages, replace(in_text, empty_answers=False), going_on=going_on)

    def go_on(self, before: Sequence[ChatMessage], last: ChatMessage) -> str:
        """Return the chat, the beginning of an answer, and the text of the answer so far."""
        calls = sum(len(message.tool_calls) for message in before)
        last = calls_in_text(last, self._notation, calls)
        if before:
            with suppress(TemplateError):
                begun = self.begin(before)
                return f"{begun}{self._apart}{self._written(begun, last)}"
        last = replace(last, content=last.written or last.content)
        text = self._chat([*before, last], going_on=True)
        space = last.content[len(last.content.rstrip()) :]
        return text.rstrip() + space  # transformers removes some of it

    def _written(self, begun: str, answer: ChatMessage) -> str:
        """The text of an answer after the prompt `begun`, with the marks that it still lacks."""
        able, marks, reasoning = self._abilities, self._syntax.reasoning, answer.reasoning
        opening = able.missing(begun, able.to_reasoning)
        between = closing_of(able, self._syntax)
        if opening is None and marks is not None:
            opening = "" if self._syntax.begins_inside(begun) else marks.opening
        if answer.written or self._syntax.reasoning_is_over(begun) or opening is None:
            return answer.written or answer.content or reasoning
        if reasoning:
            return opening + reasoning + (between + answer.content if answer.content else "")
        if not opening:
            inside = between.strip() not in answer.content
            return (between if inside else "") + answer.content
        text = able.missing(begun, able.to_text) or ""
        empty = text.startswith(opening.rstrip()) or answer.content.startswith(opening.strip())
        return ("" if empty else text.lstrip(" ")) + answer.content

    def _rendered(
        self, messages: Sequence[ChatMessage], able: TemplateAbilities, *, going_on: bool
    ) -> str:
        messages, tools = sayable(messages, self._tools, able, self._notation)
        said = as_json(messages, able, mistral=self._mistral)
        program = _program(self._tokenizer)
        if program is None:
            template, names = _source(self._tokenizer, tools=bool(tools))
            return _by_jinja(template, names | self._options, said, tools, go_on=going_on)
        text: str = program(
            said,
            tools=tools or None,
            add_generation_prompt=not going_on,
            continue_final_message=going_on,
            tokenize=False,
            **self._options,
        )
        return text


def _end_of(beginning: str, text: str) -> int | None:
    """The place where a text has all of this beginning, white space aside; None if it has not."""
    if text.startswith(beginning):
        return len(beginning)
    here = place = alike(beginning, text)
    while here < len(beginning):
        if place < len(text) and beginning[here] == text[place]:
            here, place = here + 1, place + 1
        elif beginning[here].isspace():
            here += 1
        elif place < len(text) and text[place].isspace():
            place += 1
        else:
            return None
    return place


def with_thinking(tokenizer: Any, prompt: Prompt, wish: Thinking) -> Prompt:
    """A prompt with the template's variables that make the model think as it is wished, as far as
    its own options do not set them. Raises `Problem` if these are not an object."""
    if not wish or not prompt.messages:
        return prompt
    variables = abilities_for(tokenizer, tools=bool(prompt.tools)).thinking(wish)
    given = read_json(prompt.options, dict, "template options") or {}
    return replace(prompt, options=json.dumps(variables | given))


def reply_syntax(
    tokenizer: Any,
    *,
    knows_tools: bool = True,
    found: FamilyRow | None = None,
    for_grammar: bool = False,
) -> ReplySyntax:
    """The notation of the replies of the model with this tokenizer; `knows_tools` and `found` as in
    `syntax_of`. `for_grammar`: in a grammar tokens whose names are in angle brackets are special,
    even if the tokenizer says otherwise."""
    tokens = tokenizer.added_tokens_decoder.values()
    return syntax_of(
        _template(tokenizer),
        tokens=[token.content for token in tokens],
        special=[
            token.content
            for token in tokens
            if token.special or (for_grammar and re.fullmatch("<.+>", token.content))
        ],
        knows_tools=knows_tools,
        found=found,
    )


def closing_of(able: TemplateAbilities, syntax: ReplySyntax) -> str:
    """The text between reasoning and answer; empty if the model does not reason.
    Example: "\\n</think>\\n\\n"."""
    marks = syntax.reasoning
    return able.between or (marks.closing + "\n\n" if marks else "")


def abilities_for(tokenizer: Any, *, tools: bool = False) -> TemplateAbilities:
    """What the template can say that this tokenizer has for chats with or without tools."""
    if _program(tokenizer) is not None or not _template(tokenizer):
        return TemplateAbilities()
    template, names = _source(tokenizer, tools=tools)
    return _abilities_of(template, tuple(sorted(names.items())))


@lru_cache(maxsize=8)
def _abilities_of(template: str, names: tuple[tuple[str, str], ...]) -> TemplateAbilities:
    def render(messages: Any, tools: Any, variables: Mapping[str, Any], begin: bool) -> str:
        return _by_jinja(template, dict(names) | dict(variables), messages, tools, begin=begin)

    return abilities_of(render)


def _program(tokenizer: Any) -> Callable[..., str] | None:
    """The program in Python that a few models have in place of a template, mlx-lm's or their own.

    mlx-lm's own method, which calls either of them, would force a value of enable_thinking.
    """
    own = getattr(tokenizer, "_tokenizer", tokenizer)
    if type(own).apply_chat_template is not PreTrainedTokenizerBase.apply_chat_template:
        return own.apply_chat_template
    return getattr(tokenizer, "_chat_template", None)


def _source(tokenizer: Any, *, tools: bool) -> tuple[str, dict[str, Any]]:
    """The template for a chat with or without tools, and the names of tokens that it may use."""
    template = tokenizer.get_chat_template(tools=[{}] if tools else None)
    return template, {
        name: token
        for name, token in tokenizer.special_tokens_map.items()
        if isinstance(token, str)
    }


def _by_jinja(
    template: str,
    variables: Mapping[str, Any],
    messages: Sequence[Any],
    tools: Sequence[Any],
    *,
    go_on: bool = False,
    begin: bool | None = None,
) -> str:
    """Render with transformers' program, but with messages as they are: `apply_chat_template`
    leaves out a content of None, for which some templates ask.

    A template that refuses the tools as they are gets them in a plain form; if None for
    missing tools and documents is refused, empty lists are tried.
    """
    render = partial(
        render_jinja_template,
        conversations=[list(messages)],
        chat_template=template,
        add_generation_prompt=not go_on if begin is None else begin,
        continue_final_message=go_on,
    )
    try:
        texts, _ = render(tools=list(tools) or None, **variables)
    except Exception as error:  # the program may raise anything
        if isinstance(error, MemoryError):
            raise
        texts, _ = render(tools=in_plain_form(tools), **{"documents": [], **variables})
    return str(texts[0])


def _refuse_own_parameters(options: Mapping[str, Any]) -> None:
    """Refuse options that are not the template's variables: they could replace the template."""
    taken = signature(PreTrainedTokenizerBase.apply_chat_template).parameters.keys()
    for name in options:
        if name in taken or name == "messages":
            raise Problem(
                f"{name} is not a variable of a chat template.", "Remove it from the options."
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
    before = next(free)
    ends = {*getattr(tokenizer, "eos_token_ids", ()), *ends_of_answers(tokenizer)}
    decoder = tokenizer.added_tokens_decoder
    ending = _any_of({decoder[end].content for end in ends if end in decoder})
    return _Shield(
        names=frozenset(names),
        ours=_any_of(special),
        written=_any_of(special - set(reply_syntax(tokenizer).special)),
        theirs=_any_of(names),
        before=before,
        behind=next(free),
        ending=re.compile(f"(?<!{before})(?:{ending.pattern})"),
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
        yield from (message.content, message.reasoning, message.written)
        yield from (message.name, message.tool_call_id)
        for call in message.tool_calls:
            yield from (call.id, call.name, call.arguments)


def _refuse_half_characters(prompt: Prompt) -> None:
    if any("\ud800" <= letter <= "\udfff" for text in _texts(prompt) for letter in text):
        raise Problem("The text is not valid UTF-8.", "Convert it to UTF-8.")


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text changed, names of fields too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _mapped(part, change) for name, part in value.items()}
    if isinstance(value, list):
        return [_mapped(part, change) for part in value]
    return value


def encode_piece(tokenizer: Any, text: str, *, first: bool = False) -> list[int]:
    """Encode a text; names of special tokens become those tokens.

    SentencePiece puts a space before a text. To avoid that for a piece that is not `first`, the
    piece is encoded after a line end, whose tokens are then removed.
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
