"""The options that several commands share, each declared once: a command gets them as one object.

Knows what a person may write and what that means; loads nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_type_hints

import typer
from rich.markup import escape

from engine.process.protocol import Load, Macs, Memory
from engine.request import Grammar, Overflow, Request, Sampling
from models.errors import Problem
from models.model_folder import ModelFolder

DEFAULT_DRAFTER = "auto"


class Panel(StrEnum):
    """The groups of options, as --help lists them."""

    OPTIONS = "Options"
    ANSWER = "Answer"
    MODEL = "Model and drafter"
    SAMPLING = "Sampling (else: as the model's makers recommend; 0 switches each off)"
    DOCUMENTS = "Documents"
    QUESTIONS = "Questions"
    REPORT = "Report"
    MACS = "Several Macs"


_WORDS = (
    "MODEL: a folder, a GGUF file, a hub id, or a name that slipstream models list shows.",
    "DRAFTER: auto, none, lookup, suffix, recycling, lookahead[:W,N,G], head, early-exit[:LAYERS], "
    "a MODEL, or several joined with +.",
    "LENGTH: a number, tree:N for a tree of N tokens, or auto.",
    "HOSTFILE: as mlx.distributed_config writes it. Nothing that the Macs send is encrypted. It "
    "never ran over Thunderbolt yet.",
    "MODE: pipeline gives each Mac some layers (exactly the text of one Mac), tensor a part of "
    "every layer (equal up to rounding), auto what fits.",
)


def option(
    help: str, *names: str, panel: Panel = Panel.OPTIONS, metavar: str = "", **more: Any
) -> Any:
    """An option for `Annotated`. Without a `metavar` it is a switch."""
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar, **more)


_answer, _model, _sampling, _documents, _macs = (
    partial(option, panel=panel)
    for panel in (Panel.ANSWER, Panel.MODEL, Panel.SAMPLING, Panel.DOCUMENTS, Panel.MACS)
)


def argument(help: str, *, metavar: str) -> Any:
    """An argument for `Annotated`."""
    return typer.Argument(help=help, metavar=metavar)


def examples(*lines: str, words: bool = False) -> str:
    """The end of a command's help: lines to copy, and with `words` what the metavars stand for."""
    shown = [escape(f"Example: {line}") for line in lines]
    return "\n\n".join([*map(escape, _WORDS), *shown] if words else shown)


Target = Annotated[str | None, _model("The model that answers; else the starter.", metavar="MODEL")]
Drafter = Annotated[str, _model("What guesses the next tokens.", metavar="DRAFTER")]
Hosts = Annotated[
    Path | None, _macs("Hold the target on the Macs in this file.", metavar="HOSTFILE")
]
MaxTokens = Annotated[int, _answer("Tokens of the longest answer.", metavar="N", min=1)]
Json = Annotated[bool, option("Print JSON instead.", "--json")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MacsOptions:
    """The Macs that hold the target; without a hostfile this one alone."""

    hosts: Hosts = None
    trust_network: Annotated[
        bool, _macs("Trust everybody on their network.", "--trust-network")
    ] = False
    mode: Annotated[
        Literal["auto", "pipeline", "tensor"],
        _macs("How they share it.", metavar="MODE"),
    ] = "auto"

    def __post_init__(self) -> None:
        if self.hosts is None and (self.trust_network or self.mode != "auto"):
            raise Problem("No Macs are named.", "Give their file with --hosts.")

    @property
    def macs(self) -> Macs:
        """The Macs, as the engine is asked for them."""
        if self.hosts is None:
            return Macs()
        return Macs(str(self.hosts.expanduser().absolute()), self.trust_network, self.mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions(MacsOptions):
    """What answers: a pair, how it drafts and samples, what it may keep. For every command that
    answers. Raises `Problem` if a value is out of range."""

    target: Target = None
    drafter: Drafter = DEFAULT_DRAFTER
    draft_length: Annotated[str, _model("Tokens to guess a round.", metavar="LENGTH")] = "auto"
    context: Annotated[
        int, _model("Tokens of a chat; 0: all it can read.", metavar="N", show_default=False)
    ] = 0
    cache_bits: Annotated[
        int, _model("Bits in the caches of long chats: 8 or 4.", metavar="N", show_default=False)
    ] = 0
    learn: Annotated[bool, _model("Guess from earlier answers; keep new ones.", "--learn")] = False
    measure: Annotated[bool, _model("Measure what drafting costs again.", "--measure")] = False
    temperature: Annotated[float | None, _sampling("How much is left to chance.", metavar="X")] = (
        None
    )
    top_k: Annotated[int | None, _sampling("Keep the N likeliest tokens.", metavar="N")] = None
    top_p: Annotated[
        float | None, _sampling("Keep the likeliest, up to this share of all.", metavar="X")
    ] = None
    min_p: Annotated[
        float | None, _sampling("Drop those below this share of the likeliest.", metavar="X")
    ] = None
    repetition_penalty: Annotated[
        float | None, _sampling("Divide the chance of what was said; 1: off.", metavar="X")
    ] = None
    presence_penalty: Annotated[
        float | None, _sampling("Lower the chance of what was said.", metavar="X")
    ] = None
    frequency_penalty: Annotated[
        float | None, _sampling("Lower it each time that it was said.", metavar="X")
    ] = None
    seed: Annotated[int | None, _sampling("The same seed writes the same text.", metavar="N")] = (
        None
    )

    def __post_init__(self) -> None:
        MacsOptions.__post_init__(self)
        Sampling(**self._given)
        _ = self._memory

    def load(self, folder: ModelFolder, *, id: str, **more: Any) -> Load:
        """The command that loads this pair, with the target in `folder`. `more`: as for `Load`."""
        return Load(
            *(id, str(folder.path), self.drafter, self.draft_length, self._memory),
            sampling=self._sampling_for(folder),
            learn=self.learn,
            measure=self.measure,
            macs=self.macs,
            **more,
        )

    @property
    def _memory(self) -> Memory:
        return Memory(self.context, self.cache_bits)

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
        default = default_sampling(folder) if given.keys() == {"seed"} else Sampling()
        return replace(default, **given, repeatable=self.seed is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions(ModelOptions):
    """Also the options of answers that this command asks for itself. Raises `Problem`."""

    system: Annotated[str, _answer("The system prompt.", metavar="TEXT")] = ""
    max_tokens: MaxTokens = 512
    stop: Annotated[
        list[str] | None, _answer("End before this text; repeatable.", metavar="TEXT")
    ] = None
    schema: Annotated[
        Path | None, _answer("Answer in JSON that obeys this schema.", metavar="FILE")
    ] = None
    regex: Annotated[
        str | None, _answer("Answer with a text that matches this.", metavar="REGEX")
    ] = None
    attach: Annotated[
        list[Path] | None, _documents("Give the model a file or folder.", metavar="PATH")
    ] = None
    keep: Annotated[bool, _documents("Keep what was read of them.", "--keep/--no-keep")] = True

    def request(self, *, overflow: Overflow = "stop") -> Request:
        """How to answer; the sampling is the model's, as loaded. Raises `Problem`."""
        return Request(
            sampling=None,
            max_tokens=self.max_tokens,
            stops=tuple(self.stop or ()),
            grammar=self._grammar,
            overflow=overflow,
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


def with_options[Command: Callable[..., None]](command: Command) -> Command:
    """The command with an option for each field of the options objects that it takes."""
    kinds: dict[str, type[Any]] = {}
    parameters: list[Parameter] = []
    for name, parameter in signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            kinds[name] = cast(type[Any], parameter.annotation)
            parameters += _parameters(kinds[name])
        else:
            parameters.append(parameter)

    @wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{each.name: given.pop(each.name) for each in fields(kind)})
            for name, kind in kinds.items()
        }
        command(**made, **given)

    ordered = sorted(parameters, key=_place)
    run.__signature__ = Signature(ordered)  # type: ignore[attr-defined]
    return cast(Command, run)


def _parameters(kind: type[Any]) -> Iterator[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        yield Parameter(
            each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
        )


def _place(parameter: Parameter) -> int:
    """Where --help has it."""
    (described,) = parameter.annotation.__metadata__
    return [*Panel].index(described.rich_help_panel or Panel.OPTIONS)
