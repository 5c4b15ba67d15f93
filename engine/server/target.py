"""Reads the loaded model's chat template and the names of its tokens from its folder.

Each family of code models has tokens of its own for a gap in a text; the names show the family.
Knows no MLX and no weights. Missing files count as empty: the engine has checked that the model can
be used.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.replies.families import FamilyRow
from engine.replies.syntax import ReplySyntax, syntax_of
from models.errors import Problem
from models.files import read_json_object

_MOST_BYTES = 100_000_000
_QWEN_ENDS = ("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|file_separator|>", "<|endoftext|>")
_GAPS: Mapping[str, tuple[str, ...]] = {
    # Qwen2.5-Coder, Qwen3-Coder, CodeGemma
    "<|fim_prefix|>@P<|fim_suffix|>@S<|fim_middle|>": _QWEN_ENDS,
    # StarCoder2, Granite
    "<fim_prefix>@P<fim_suffix>@S<fim_middle>": ("<fim_pad>", "<file_sep>", "<|endoftext|>"),
    "<PRE> @P <SUF>@S <MID>": ("<EOT>",),  # CodeLlama
    "<｜fim▁begin｜>@P<｜fim▁hole｜>@S<｜fim▁end｜>": (),  # DeepSeek-Coder
    "[SUFFIX]@S[PREFIX]@P": (),  # Codestral
}
"""Forms of a prompt, with @P for the text before the gap and @S for the text after it, and the
tokens that end a filled gap."""
_PLACE = re.compile("@[PS]")


def name_of(target: str) -> str:
    """The name of a model in a folder: of the folder, or of its repository in the hub's cache."""
    path = Path(target)
    repository = path.parents[1].name if path.parent.name == "snapshots" else ""
    if repository.startswith("models--"):
        return repository.removeprefix("models--").replace("--", "/")
    return path.name


@dataclass(frozen=True, slots=True)
class Gap:
    """The prompt of a gap, and the stop strings of its answer."""

    prompt: str
    stops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TargetTexts:
    """A model's reply `syntax`, the names (`marks`) of its special and added tokens, and its chat
    `template`."""

    syntax: ReplySyntax = field(default_factory=ReplySyntax)
    marks: frozenset[str] = frozenset()
    template: str = ""

    def gap(self, before: str, after: str) -> Gap | None:
        """Return the prompt of a gap between two texts; None if the model has none for gaps."""
        texts = {"@P": before, "@S": after}
        for form, ends in _GAPS.items():
            if all(map(self._knows, _PLACE.sub(" ", form).split())):
                prompt = _PLACE.sub(lambda place: texts[place[0]], form)
                return Gap(prompt, tuple(filter(self._knows, ends)))
        return None

    def _knows(self, mark: str) -> bool:
        return mark in self.marks or f"▁{mark}" in self.marks


class TargetFiles:
    """Reads a model's folder when it is first needed, in another thread, and keeps the results."""

    def __init__(self) -> None:
        self._texts: dict[str, TargetTexts] = {}
        self._reading = asyncio.Lock()

    async def texts(
        self, folder: str, *, knows_tools: bool, found: FamilyRow | None = None
    ) -> TargetTexts:
        """The texts of the model in a folder. `knows_tools` and `found`: as in `syntax_of`."""
        async with self._reading:
            if folder not in self._texts:
                self._texts[folder] = await asyncio.to_thread(
                    _read, Path(folder), knows_tools=knows_tools, found=found
                )
            return self._texts[folder]


def _read(folder: Path, *, knows_tools: bool, found: FamilyRow | None) -> TargetTexts:
    tokenizer = _object(folder / "tokenizer.json")
    added = [token for token in _list(tokenizer.get("added_tokens")) if isinstance(token, dict)]
    named = {name: token for token in added if (name := _text(token.get("content")))}
    # In a grammar names in angle brackets are special tokens, even if the file says otherwise.
    special = {
        name
        for name, token in named.items()
        if token.get("special") or (name[0], name[-1]) == ("<", ">")
    }
    template = _template(folder)
    syntax = syntax_of(
        template, tokens=named, special=special, knows_tools=knows_tools, found=found
    )
    return TargetTexts(syntax, frozenset({*named, *_marks(tokenizer)}), template)


def _template(folder: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    found = _object(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(found, list):  # several, each with a name
        named = {row.get("name"): row.get("template") for row in found if isinstance(row, dict)}
        found = named.get("tool_use") or named.get("default")
    return _text(found)


def _marks(tokenizer: dict[str, Any]) -> Iterator[str]:
    """Names of special tokens that SentencePiece has among its plain tokens, such as "▁<PRE>"."""
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    for token in vocabulary if isinstance(vocabulary, dict) else ():
        if token.startswith("▁<") and token.endswith(">"):
            yield token


def _object(path: Path) -> dict[str, Any]:
    try:
        return read_json_object(path, maximum_bytes=_MOST_BYTES)
    except Problem:
        return {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
