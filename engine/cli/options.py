"""The options of the command line, each declared once: a command gets them as one object.

Knows what the user may write and what that means; loads nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from functools import partial, wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_type_hints

import typer
from rich.markup import escape

from engine.exactness import Wish
from engine.process.protocol import Load, Macs, Memory
from engine.request import Grammar, Overflow, Request, Sampling
from models.errors import Problem
from models.files import written_path
from models.model_folder import ModelFolder

DEFAULT_DRAFTER = "auto"
DrafterBits = Literal["auto", "16", "8", "4"]
ThinkingWish = Literal["on", "off", "minimal", "low", "medium", "high", "xhigh", "max"]
_PATHS = ("FILE", "FILE|default", "FOLDER", "HOSTFILE", "PATH")  # what is written as a path
_DESCRIPTION = "description"  # of a field's option, in its metadata


class Panel(StrEnum):
    """The groups of options, as --help lists them."""

    OPTIONS = "Options"
    ANSWER = "Answer"
    MODEL = "Model and drafter"
    SAMPLING = "Sampling (else: as the model's makers recommend; 0 switches each off)"
    DOCUMENTS = "Documents"
    TOOLS = "Tools"
    QUESTIONS = "Questions"
    REPORT = "Report"
    MACS = "Several Macs"


WORDS = {
    "MODEL": "a folder, a GGUF file, a hub id, or a name that slipstream models list shows.",
    "DRAFTER": "auto, none, lookup, suffix, lookahead[:W,N,G], head, "
    "early-exit[:LAYERS], a MODEL, or several joined with +.",
    "BITS": "16, 8 or 4; auto is 4 where --measure found that as many tokens are accepted, else 8.",
    "EXACT": "auto where it costs no time (a GPU is asked once), on at any price, off unchecked.",
    "LENGTH": "a number, tree:N for a tree of N tokens, or auto.",
    "HOSTFILE": "as mlx.distributed_config writes it. Nothing that the Macs send is encrypted. It "
    "never ran over Thunderbolt yet.",
    "FILE of tools": "as other programs have it; without a name your own, as set up in the window.",
    "EFFORT": "on, off, or an effort: minimal, low, medium, high, xhigh or max.",
    "MODE": "pipeline gives each Mac some layers (exactly the text of one Mac), tensor a part of "
    "every layer (equal up to rounding), auto what fits.",
}


def bits_of(written: DrafterBits) -> int:
    """Return the bits that were written, as `resolve_drafters` takes them."""
    return 0 if written == "auto" else int(written)


def described(
    help: str, metavar: str = "", *names: str, panel: Panel = Panel.OPTIONS, **more: Any
) -> Any:
    """An option for `Annotated`. Without a `metavar` it is a switch."""
    if metavar.rstrip(".") in _PATHS:
        more["parser"] = written_path
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar, **more)


def argument(help: str, metavar: str) -> Any:
    """An argument for `Annotated`."""
    parser = written_path if metavar in _PATHS else None
    return typer.Argument(help=help, metavar=metavar, parser=parser)


def option(default: Any, *words: str, **more: Any) -> Any:
    """A field of an options object; the rest as for `described`. `MISSING` makes it required."""
    return field(default=default, metadata={_DESCRIPTION: described(*words, **more)})


def positional(default: Any, help: str, metavar: str) -> Any:
    """A field of an options object that is an argument. `MISSING` makes it required."""
    return field(default=default, metadata={_DESCRIPTION: argument(help, metavar)})


def examples(*lines: str, words: Iterable[str] = ()) -> str:
    """The end of a command's help: the meaning of these `WORDS`, and lines to copy."""
    meanings = [f"{word}: {WORDS[word]}" for word in words]
    return escape("\n\n".join([*meanings, *(f"Example: {line}" for line in lines)]))


_answer, _model, _sampling, _documents, _macs = (
    partial(option, panel=panel)
    for panel in (Panel.ANSWER, Panel.MODEL, Panel.SAMPLING, Panel.DOCUMENTS, Panel.MACS)
)
DRAFTER_BITS = "Bits of its weights; 16: as published.", "BITS"
TARGET = "The model that answers; else the starter.", "MODEL"
ON_THE_MACS = "Hold the target on the Macs in this file.", "HOSTFILE"
MAX_TOKENS = "Tokens of the longest answer.", "N"
AS_JSON = "Print JSON instead.", "", "--json"


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The model that answers."""

    target: str | None = _model(None, *TARGET)


@dataclass(frozen=True, kw_only=True)
class PairOptions(TargetOptions):
    """The options of a pair: also the drafters and how far they draft."""

    drafter: str = _model(DEFAULT_DRAFTER, "What guesses the next tokens.", "DRAFTER")
    drafter_bits: DrafterBits = _model("auto", *DRAFTER_BITS)


@dataclass(frozen=True, kw_only=True)
class MacsOptions:
    """The Macs that hold the target; without a hostfile this one alone."""

    hosts: Path | None = _macs(None, *ON_THE_MACS)
    mode: Literal["auto", "pipeline", "tensor"] = _macs("auto", "How they share it.", "MODE")

    def __post_init__(self) -> None:
        if self.hosts is None and self.mode != "auto":
            raise Problem("No Macs are named.", "Give their file with --hosts.")

    @property
    def macs(self) -> Macs:
        """The Macs, as the engine is asked for them."""
        if self.hosts is None:
            return Macs()
        return Macs(str(self.hosts.absolute()), self.mode)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(PairOptions, MacsOptions):
    """What answers: a pair, how it drafts and samples, and where. For all commands that answer.
    Raises `Problem` if a value is out of range."""

    draft_length: str = _model("auto", "Tokens to guess a round.", "LENGTH")
    exact: Wish = _model("auto", "Write plain decoding's text bit for bit.", "EXACT")
    context: int = _model(0, "Tokens of a chat; 0: all it can read.", "N", show_default=False)
    cache_bits: int = _model(0, "Bits in caches of long chats: 8 or 4.", "N", show_default=False)
    kept: bool = _model(
        True, "Keep on disk what was read of long instructions, documents.", "", "--kept/--no-kept"
    )
    learn: bool = _model(False, "Guess from earlier answers; keep new ones.", "", "--learn")
    measure: bool = _model(
        False, "Measure again what drafting costs, and if 4 bits do.", "", "--measure"
    )
    temperature: float | None = _sampling(None, "How much is left to chance.", "X")
    top_k: int | None = _sampling(None, "Keep the N likeliest tokens.", "N")
    top_p: float | None = _sampling(None, "Keep the likeliest, up to this share of all.", "X")
    min_p: float | None = _sampling(None, "Drop those below this share of the likeliest.", "X")
    repetition_penalty: float | None = _sampling(None, "Make used tokens less likely; 1: off.", "X")
    presence_penalty: float | None = _sampling(None, "Lower the score of used tokens.", "X")
    frequency_penalty: float | None = _sampling(None, "Lower it once for each use.", "X")
    seed: int | None = _sampling(None, "The same seed writes the same text.", "N")
    thinking: ThinkingWish | None = _answer(None, "Whether it thinks first, how much.", "EFFORT")
    thinking_budget: int | None = _answer(
        None, "After so many tokens it stops thinking and answers.", "N", min=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        Sampling(**self._given)
        _ = self._memory

    def load(self, folder: ModelFolder, *, id: str, **more: Any) -> Load:
        """The command that loads this pair, with the target in `folder`. `more`: as for `Load`."""
        return Load(
            *(id, str(folder.path), self.drafter, self.draft_length, self._memory),
            sampling=self._sampling_for(folder),
            learn=self.learn,
            keep_bytes=None if self.kept else 0,
            measure=self.measure,
            exact=self.exact,
            macs=self.macs,
            **more,
        )

    @property
    def _memory(self) -> Memory:
        return Memory(self.context, self.cache_bits, bits_of(self.drafter_bits))

    @property
    def _given(self) -> dict[str, Any]:
        """The sampling options that were given, by their names."""
        names = {each.name for each in fields(Sampling)} & {each.name for each in fields(self)}
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}

    def _sampling_for(self, folder: ModelFolder) -> Sampling | None:
        """The sampling as given, and nothing beside it; None for the model's own default. With a
        seed alone it is that default, seeded."""
        from engine.conversation.default_sampling import default_sampling

        given = self._given
        if not given:
            return None
        default = default_sampling(folder)[0] if given.keys() == {"seed"} else Sampling()
        return replace(default, **given, repeatable=self.seed is not None)


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(ModelOptions):
    """Also the options of answers that this command asks for itself. Raises `Problem`."""

    system: str = _answer("", "The system prompt.", "TEXT")
    max_tokens: int = _answer(512, *MAX_TOKENS, min=1)
    stop: list[str] | None = _answer(None, "End before this text; repeatable.", "TEXT")
    schema: Path | None = _answer(None, "Answer in JSON that obeys this schema.", "FILE")
    regex: str | None = _answer(None, "Answer with a text that matches this.", "REGEX")
    attach: list[Path] | None = _documents(None, "Give the model a file or folder.", "PATH")
    image: list[Path] | None = _documents(None, "Show the model a picture; repeatable.", "FILE")
    tools: Path | None = option(
        *(None, "Give it the tools of the servers in this file (mcpServers).", "FILE"),
        panel=Panel.TOOLS,
    )

    def request(self, *, overflow: Overflow = "stop") -> Request:
        """How to answer; the sampling is the model's, as loaded. Raises `Problem`."""
        return Request(
            sampling=None,
            max_tokens=self.max_tokens,
            thinking=self.thinking or "",
            thinking_budget=self.thinking_budget,
            stops=tuple(self.stop or ()),
            grammar=self._grammar,
            overflow=overflow,
            keep_instructions=True,
        )

    @property
    def _grammar(self) -> Grammar | None:
        if self.schema is not None and self.regex is not None:
            raise Problem("There are a schema and a regular expression.", "Give one of them.")
        if self.schema is None:
            return None if self.regex is None else Grammar("regex", self.regex)
        try:
            return Grammar("json schema", self.schema.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise Problem(
                f"{self.schema} cannot be read as text: {error}.", "Give a file with a JSON schema."
            ) from error


def with_options[Options](command: Callable[[Options], None]) -> Callable[..., None]:
    """A command with an option for each field of the dataclass that `command` takes."""
    kind: type[Any] = get_type_hints(command)["options"]

    @wraps(command)
    def run(**given: Any) -> None:
        command(kind(**given))

    ordered = sorted(_parameters(kind), key=_place)
    run.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
    return run


def _parameters(kind: type[Any]) -> Iterator[Parameter]:
    hints, annotated = get_type_hints(kind), cast(Any, Annotated)
    for each in fields(kind):
        default = Parameter.empty if each.default is MISSING else each.default
        annotation = annotated[hints[each.name], each.metadata[_DESCRIPTION]]
        yield Parameter(each.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _place(parameter: Parameter) -> int:
    """The place of its group in --help; arguments come first."""
    (described,) = parameter.annotation.__metadata__
    panel = described.rich_help_panel
    return -1 if panel is None else [*Panel].index(panel)
