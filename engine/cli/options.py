"""The options of the command line, each declared once; a command gets them as one object.

Knows which values the user may write and what they mean; loads nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from functools import partial, wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_type_hints

import typer
from rich.markup import escape

from engine.exactness import Wish
from engine.process.protocol import Load, Macs, Memory
from engine.request import Grammar, Overflow, Request, Sampling
from models.errors import Problem
from models.files import written_path

if TYPE_CHECKING:
    from models.model_folder import ModelFolder

DEFAULT_DRAFTER = "auto"
DrafterBits = Literal["auto", "16", "8", "4"]
ThinkingWish = Literal["on", "off", "minimal", "low", "medium", "high", "xhigh", "max"]
_PATHS = ("FILE", "FILE|default", "FOLDER", "HOSTFILE", "PATH")  # values that are paths
_DESCRIPTION = "description"  # of a field's option, in its metadata


class Panel(StrEnum):
    """The groups of options, as --help lists them."""

    OPTIONS = "Options"
    ANSWER = "Answer"
    MODEL = "Model and drafter"
    SAMPLING = "Sampling (default: as the model's makers recommend)"
    DOCUMENTS = "Documents"
    TOOLS = "Tools"
    QUESTIONS = "Questions"
    REPORT = "Report"
    MACS = "Several Macs"


WORDS = {
    "MODEL": "a folder, a GGUF file, a hub id, or a name that slipstream models list shows.",
    "DRAFTER": "auto, none, lookup, suffix, lookahead[:W,N,G], head, "
    "early-exit[:LAYERS], a MODEL, or several joined with +.",
    "BITS": "16, 8 or 4; auto: 8.",
    "EXACT": "auto: if it costs no time (a GPU is checked once); on: always; off: unchecked.",
    "LENGTH": "a number, tree:N for a tree of N tokens, or auto.",
    "HOSTFILE": "a file that mlx.distributed_config wrote. Traffic between the Macs is not "
    "encrypted. Not yet tested over Thunderbolt.",
    "FILE of tools": 'a JSON file with "mcpServers"; without FILE: the servers set up in the '
    "window.",
    "EFFORT": "on, off, or an effort: minimal, low, medium, high, xhigh or max.",
    "MODE": "pipeline: each Mac holds some layers (exactly the text of one Mac); tensor: each "
    "holds a part of every layer (equal up to rounding); auto: whichever fits.",
}


def bits_of(written: DrafterBits) -> int:
    """Return the bits as `resolve_drafters` takes them: 0 for auto."""
    return 0 if written == "auto" else int(written)


def described(
    help: str, metavar: str = "", *names: str, panel: Panel = Panel.OPTIONS, **more: Any
) -> Any:
    """Return an option for `Annotated`. Without a `metavar` it is a switch."""
    if metavar.rstrip(".") in _PATHS:
        more["parser"] = written_path
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar, **more)


def argument(help: str, metavar: str) -> Any:
    """Return an argument for `Annotated`."""
    parser = written_path if metavar in _PATHS else None
    return typer.Argument(help=help, metavar=metavar, parser=parser)


def option(default: Any, *words: str, **more: Any) -> Any:
    """Return a field of an options object; `words` and `more` are `described`'s. `MISSING` makes
    it required."""
    return field(default=default, metadata={_DESCRIPTION: described(*words, **more)})


def positional(default: Any, help: str, metavar: str) -> Any:
    """Return a field of an options object that is an argument. `MISSING` makes it required."""
    return field(default=default, metadata={_DESCRIPTION: argument(help, metavar)})


def examples(*lines: str, words: Iterable[str] = ()) -> str:
    """Return the end of a command's help: the meaning of these `WORDS`, and example lines."""
    meanings = [f"{word}: {WORDS[word]}" for word in words]
    return escape("\n\n".join([*meanings, *(f"Example: {line}" for line in lines)]))


_answer, _model, _sampling, _documents, _macs = (
    partial(option, panel=panel)
    for panel in (Panel.ANSWER, Panel.MODEL, Panel.SAMPLING, Panel.DOCUMENTS, Panel.MACS)
)
DRAFTER_BITS = "Bits of the drafter's weights; 16: as published.", "BITS"
TARGET = "The model that answers; default: the starter.", "MODEL"
ON_THE_MACS = "Split the target among the Macs in this file.", "HOSTFILE"
MAX_TOKENS = "Tokens an answer, at most.", "N"
AS_JSON = "Print JSON instead.", "", "--json"


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The model that answers."""

    target: str | None = _model(None, *TARGET)


@dataclass(frozen=True, kw_only=True)
class PairOptions(TargetOptions):
    """The options of a pair: a target and its drafters."""

    drafter: str = _model(DEFAULT_DRAFTER, "The drafter that guesses the next tokens.", "DRAFTER")
    drafter_bits: DrafterBits = _model("auto", *DRAFTER_BITS)


@dataclass(frozen=True, kw_only=True)
class MacsOptions:
    """The Macs that hold the target; without a hostfile only this one."""

    hosts: Path | None = _macs(None, *ON_THE_MACS)
    mode: Literal["auto", "pipeline", "tensor"] = _macs("auto", "How to split it.", "MODE")

    def __post_init__(self) -> None:
        if self.hosts is None and self.mode != "auto":
            raise Problem("--mode needs several Macs.", "Name their file with --hosts.")

    @property
    def macs(self) -> Macs:
        """The Macs, as the engine's commands name them."""
        if self.hosts is None:
            return Macs()
        return Macs(str(self.hosts.absolute()), self.mode)


@dataclass(frozen=True, kw_only=True)
class ModelOptions(PairOptions, MacsOptions):
    """The options of every command that answers: the pair, drafting, sampling, Macs.

    Raises `Problem` if a value is out of range.
    """

    draft_length: str = _model("auto", "Tokens to guess a round.", "LENGTH")
    exact: Wish = _model("auto", "Exactly the text of plain decoding.", "EXACT")
    context: int = _model(0, "Tokens a chat; 0: the model's limit.", "N", show_default=False)
    cache_bits: int = _model(0, "Compress long caches to 8 or 4 bits.", "N", show_default=False)
    cache: bool = _model(
        True, "Cache long prompts and documents on disk.", "", "--cache/--no-cache"
    )
    learn: bool = _model(False, "Guess from earlier answers; save new ones.", "", "--learn")
    measure: bool = _model(False, "Measure the cost of drafting again.", "", "--measure")
    temperature: float | None = _sampling(None, "Randomness; 0 is greedy.", "X")
    top_k: int | None = _sampling(None, "Sample from the N likeliest tokens; 0: off.", "N")
    top_p: float | None = _sampling(None, "Sample from tokens that sum to this; 1: off.", "X")
    min_p: float | None = _sampling(None, "Drop tokens below this share of the best; 0: off.", "X")
    repetition_penalty: float | None = _sampling(None, "Make used tokens less likely; 1: off.", "X")
    presence_penalty: float | None = _sampling(None, "Lower the score of used tokens; 0: off.", "X")
    frequency_penalty: float | None = _sampling(None, "Lower the score for each use; 0: off.", "X")
    seed: int | None = _sampling(None, "The same seed writes the same text.", "N")
    thinking: ThinkingWish | None = _answer(
        None, "Think before the answer, and how much.", "EFFORT"
    )
    thinking_budget: int | None = _answer(None, "Tokens of thinking, at most.", "N", min=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        Sampling(**self._given)
        _ = self._memory

    def load(self, folder: "ModelFolder", *, id: str, **more: Any) -> Load:
        """Return the command that loads this pair with the target in `folder`. `more`: other
        fields of `Load`."""
        return Load(
            *(id, str(folder.path), self.drafter, self.draft_length, self._memory),
            sampling=self._sampling_for(folder),
            learn=self.learn,
            keep_bytes=None if self.cache else 0,
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
        """The sampling options that the user gave, by their names."""
        names = {f.name for f in fields(Sampling)} & {f.name for f in fields(self)}
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}

    def _sampling_for(self, folder: "ModelFolder") -> Sampling | None:
        """Return exactly the sampling that the user gave; None for the model's own default. A seed
        alone gives that default, seeded."""
        from engine.conversation.default_sampling import default_sampling

        given = self._given
        if not given:
            return None
        default = default_sampling(folder)[0] if given.keys() == {"seed"} else Sampling()
        return replace(default, **given, repeatable=self.seed is not None)


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(ModelOptions):
    """Also the options of a prompt and its answer. Raises `Problem`."""

    system: str = _answer("", "The system prompt.", "TEXT")
    max_tokens: int = _answer(512, *MAX_TOKENS, min=1)
    stop: list[str] | None = _answer(None, "End before this text; repeatable.", "TEXT")
    schema: Path | None = _answer(None, "Answer in JSON of this schema.", "FILE")
    regex: str | None = _answer(None, "Answer with text that matches this.", "REGEX")
    attach: list[Path] | None = _documents(None, "Attach a file or folder; repeatable.", "PATH")
    image: list[Path] | None = _documents(None, "Show the model a picture; repeatable.", "FILE")
    tools: Path | None = option(
        *(None, "Offer the tools of the MCP servers in this file.", "FILE"),
        panel=Panel.TOOLS,
    )

    def request(self, *, overflow: Overflow = "stop") -> Request:
        """Return the request; its sampling is the loaded model's. Raises `Problem`."""
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
            raise Problem("--schema and --regex exclude each other.", "Give one of them.")
        if self.schema is None:
            return None if self.regex is None else Grammar("regex", self.regex)
        try:
            return Grammar("json schema", self.schema.read_text(encoding="utf-8-sig"))
        except (OSError, UnicodeDecodeError) as error:
            raise Problem(
                f"{self.schema} cannot be read as text: {error}.", "Give a file with a JSON schema."
            ) from error


def with_options[Options](command: Callable[[Options], None]) -> Callable[..., None]:
    """Return a command with an option for each field of the dataclass that `command` takes."""
    kind: type[Any] = get_type_hints(command)["options"]

    @wraps(command)
    def run(**given: Any) -> None:
        command(kind(**given))

    ordered = sorted(_parameters(kind), key=_place)
    run.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
    return run


def _parameters(kind: type[Any]) -> Iterator[Parameter]:
    hints, annotated = get_type_hints(kind), cast(Any, Annotated)
    for f in fields(kind):
        default = Parameter.empty if f.default is MISSING else f.default
        annotation = annotated[hints[f.name], f.metadata[_DESCRIPTION]]
        yield Parameter(f.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _place(parameter: Parameter) -> int:
    """Return the place of a parameter's group in --help; arguments come first."""
    (described,) = parameter.annotation.__metadata__
    panel = described.rich_help_panel
    return -1 if panel is None else [*Panel].index(panel)
