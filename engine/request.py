"""A request: a prompt, how tokens are chosen, where the answer ends. Knows no MLX.

Values are checked when a request is made: a value out of range raises a `Problem`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal, get_args

from models.errors import Problem

Role = Literal["system", "user", "assistant", "tool"]
Overflow = Literal["stop", "rolling", "middle"]
"""What becomes of a conversation that is longer than the model's context: it is refused; its oldest
turns are not read; its first turn is read, and those after it are not."""


Thinking = Literal["", "on", "off", "minimal", "low", "medium", "high", "xhigh", "max"]
"""Whether a model is asked to think before it answers, or with how much effort; "" leaves it to the
makers of its chat template."""

GrammarKind = Literal["json schema", "regex", "lark"]


class TooLong(Problem):
    """A prompt has no room in the model's context. All in tokens; `tools`: about how many of
    them describe tools."""

    def __init__(self, tokens: int, context: int, *, tools: int = 0) -> None:
        of_tools = f", about {tools} of them for tools" if tools else ""
        super().__init__(
            f"The prompt has {tokens} tokens{of_tools}, and the model can look at {context}.",
            f"Shorten it, or {'switch off tools' if tools else 'start a new conversation'}.",
        )
        self.tokens, self.context = tokens, context


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool, by the assistant. `arguments` is the JSON text of an object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a message shows, as our own reader has written it: see `engine.documents`.

    `path`: the absolute path of its PNG, upright, RGB. `digest`: the SHA-256 of its pixels and
    size, in hexadecimal; two pictures with the same digest are the same. `width` and `height` in
    pixels.
    """

    path: str
    digest: str
    width: int
    height: int

    def __post_init__(self) -> None:
        if not PurePath(self.path).is_absolute():
            raise Problem(
                f"The path of the picture is relative: {self.path!r}.", "Give an absolute path."
            )
        if not re.fullmatch("[0-9a-f]{64}", self.digest):
            raise Problem("A picture's digest is not SHA-256.", "Give 64 hexadecimal digits.")
        if self.width < 1 or self.height < 1:
            raise Problem("A picture has no size.", "Give its width and height in pixels.")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a chat.

    `reasoning` and `tool_calls`: the assistant's, apart from its text. `written`: the very text
    that the model wrote, with all three and their marks, which are tokens. Where the template
    writes all of it, too, the prompt has it in that form: its tokens are as they were read before.
    A "tool" message is the result of the call `tool_call_id` of the tool `name`. `attached`: the
    number of characters at the beginning of the content that are documents; a drafter need not read
    all of these. `pictures` come before the content.
    """

    role: Role
    content: str
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    name: str = ""
    attached: int = 0
    written: str = ""
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The input that is answered or continued: a chat, a text, or token ids.

    A chat is rendered by the model's template, which is also given `tools`, the JSON text of a
    list of tools as OpenAI writes them, and `options`, the JSON text of an object of its variables.
    What a chat's messages say is text; in a `text` the names of special tokens are those tokens.
    With a `suffix` the gap between the two texts is filled, if the model has tokens for that.
    """

    messages: tuple[ChatMessage, ...] = ()
    tools: str = ""
    options: str = ""
    text: str = ""
    suffix: str = ""
    tokens: tuple[int, ...] = ()


def thinking_of(effort: str | None) -> Thinking:
    """The thinking that an API's word for effort asks for; "on" for a word that is not known."""
    if effort is None:
        return ""
    known = (one for one in get_args(Thinking) if one == effort)
    return "off" if effort == "none" else next(known, "on")


def chat(messages: Sequence[ChatMessage]) -> Prompt:
    """A chat as a prompt."""
    return Prompt(messages=tuple(messages))


def asked(text: str) -> Prompt:
    """A chat that begins with this question."""
    return chat([ChatMessage("user", text)])


@dataclass(frozen=True, slots=True)
class Grammar:
    """The form that an answer must have: the source of a JSON schema, a regular expression, or a
    Lark grammar in llguidance's dialect.

    The answer is free up to the end of the first `after` in it; without `after` its first token is
    constrained already.
    """

    kind: GrammarKind
    source: str
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """The calls that an answer makes of the prompt's tools.

    `choice`: "auto", "required", or the name of the tool that must be called, once; `parallel`: an
    answer may have several calls. `strict`: the request is refused if the schema of a strict tool
    cannot be enforced; otherwise as much of it is enforced as can be.
    """

    choice: str = "auto"
    parallel: bool = True
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Sampling:
    """The settings by which the next token is chosen. Temperature 0 is greedy; 0 or 1 switches a
    filter off.

    `penalty_window` is how many of the latest tokens, prompt included, the penalties look at.
    `repetition_penalty` divides (CTRL, arXiv 1909.05858), the other two subtract (OpenAI).

    A `repeatable` answer is the same for the same `seed`, with any drafts and with any other
    answers at the same time. The noise belongs to the position then, and fewer drafts are accepted.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_window: int = 64
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    repeatable: bool = False

    def __post_init__(self) -> None:
        limits: list[tuple[str, float, float, float]] = [
            ("temperature", self.temperature, 0.0, 100.0),
            ("top_k", self.top_k, 0, math.inf),
            ("top_p", self.top_p, 0.0, 1.0),
            ("min_p", self.min_p, 0.0, 1.0),
            ("repetition_penalty", self.repetition_penalty, 0.01, 100.0),
            ("presence_penalty", self.presence_penalty, -100.0, 100.0),
            ("frequency_penalty", self.frequency_penalty, -100.0, 100.0),
            ("penalty_window", self.penalty_window, 1, 1 << 20),
        ]
        for name, value, low, high in limits:
            if not low <= value <= high:
                raise Problem(f"{name} is {value}.", f"Choose a value from {low:g} to {high:g}.")
        if 0.0 < self.temperature < 0.001:
            raise Problem(f"temperature is {self.temperature}.", "Choose 0 (greedy) or 0.001 up.")
        if not isinstance(self.top_k, int) or not isinstance(self.penalty_window, int):
            raise Problem("top_k or penalty_window is not an integer.", "Choose whole numbers.")
        for token, bias in self.logit_bias.items():
            if token < 0 or not math.isfinite(bias):
                raise Problem(
                    f"logit_bias has {token}: {bias}.", "Use token ids from 0, and finite numbers."
                )
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            raise Problem(f"The seed is {self.seed}.", "Choose one from 0 to 2^64 - 1.")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def filters(self) -> bool:
        return self.top_k > 0 or 0.0 < self.top_p < 1.0 or self.min_p > 0.0

    @property
    def penalizes(self) -> bool:
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )


BALANCED = Sampling(temperature=0.7, top_p=0.9)
"""Some variety, nothing far-fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The settings of an answer. `stops`: texts that end the answer and are not part of it; not
    looked for in reasoning and calls.

    A `sampling` of None is the model's own default: see `engine.conversation.default_sampling`.
    `overflow` names the messages to leave out of a conversation that is too long: see
    `engine.conversation.overflow`. `prediction`: a text that the answer will perhaps resemble; it
    is drafted from, and changes nothing else.

    `thinking` sets variables of the chat template, over which `Prompt.options` prevail. After
    `thinking_budget` tokens of reasoning the mark that closes it is written, and the answer begins;
    None sets no limit.

    `logprobs`: the number of likeliest tokens to give with each token, with the log probability of
    all; None: no log probabilities. `special`: the answer's text has the names of special tokens
    in it, but not of the tokens that end it.

    An answer begins with its `grammar`; with rules for `calls`, after its reasoning, and it may be
    calls instead. An answer that may not call the prompt's tools (`may_call`) is held to prose by a
    grammar, unless it has another, and none of it is read as a call.

    `keep_as`: the digests of the documents in the prompt. Its caches may be stored on disk, where
    the engine stores such things, and are deleted with any of the documents. Without documents
    `keep_instructions` says whether the system prompt and the tools may be kept: see
    `engine.conversation.kept_prefixes`.

    Of a `private` answer nothing is written to the disk: no cache, and no text to learn from.
    """

    sampling: Sampling | None = field(default_factory=Sampling)
    max_tokens: int = 512
    thinking: Thinking = ""
    thinking_budget: int | None = None
    stops: tuple[str, ...] = ()
    overflow: Overflow = "stop"
    prediction: str = ""
    grammar: Grammar | None = None
    logprobs: int | None = None
    special: bool = False
    may_call: bool = True
    calls: CallRules = field(default_factory=CallRules)
    keep_as: tuple[str, ...] = ()
    keep_instructions: bool = False
    private: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise Problem(f"max_tokens is {self.max_tokens}.", "Give 1 or more.")
        if self.thinking_budget is not None and self.thinking_budget < 0:
            raise Problem(f"thinking_budget is {self.thinking_budget}.", "Give 0 or more.")

    def room(self, context_length: int) -> int:
        """Return how many tokens a chat may have in this context before messages are left out."""
        return context_length - min(self.max_tokens, context_length // 4)
