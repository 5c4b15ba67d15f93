"""Reads llama.cpp's replies and what they are read as from its tests/test-chat.cpp.

Understands as much C++ as that file's cases are written in. A case that it cannot read is left out
and counted.
"""

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.replies.tools import Tool, tools_of

_TOKEN = re.compile(
    r'\s+|//[^\n]*|/\*.*?\*/|\'(?:[^\'\\]|\\.)+\'|R"(?P<mark>[\w#]*)\((?P<raw>.*?)\)(?P=mark)"|(?P<text>"(?:[^"\\]|\\.)*")'
    r"|(?P<word>\w+(?:::\w+)*)|(?P<other>.)",
    re.DOTALL,
)
_TEXT, _WORD, _OTHER = "text", "word", "other"
_CONTINUED = "continue_final_message"


@dataclass(frozen=True)
class Case:
    """A reply of the model with `template`, and its parts. `whole`: it is not cut off."""

    template: str
    reply: str
    content: str
    reasoning: str
    calls: list[tuple[str, str]]
    tools: tuple[Tool, ...]
    tools_json: str
    thinks: bool
    keeps_reasoning: bool
    whole: bool
    schema: str


@dataclass
class _Message:
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)


class _Unreadable(Exception):
    pass


def cases_in(path: Path) -> tuple[list[Case], int]:
    """The cases of the file that continue no message, and the number of those left out."""
    reader = _Reader(path.read_text(encoding="utf-8"))
    return reader.cases()


class _Reader:
    def __init__(self, source: str) -> None:
        self._tokens = [token for found in _TOKEN.finditer(source) if (token := _token(found))]
        self._place = 0
        self._known: dict[str, Any] = {"true": True, "false": False}
        self._templates: dict[str, list[str]] = {}
        self._listed: list[str] = []

    def cases(self) -> tuple[list[Case], int]:
        found: list[Case] = []
        left_out = 0
        _templates_of_function = _called_with(self._tokens)
        while self._place < len(self._tokens) - 2:
            (kind, word), (_, after), (_, behind) = self._tokens[self._place : self._place + 3]
            begun = self._place
            try:
                if kind == _WORD and after == "." and behind == "test":
                    found += self._case(word)
                elif kind == _WORD and after == "=" and behind == "peg_tester":
                    self._place += 4
                    given = self._value()
                    self._templates[word] = (
                        [given]
                        if isinstance(given, str)
                        else self._listed or _templates_of_function
                    )
                elif kind == _WORD and after == ":" and behind == "{":
                    self._place += 2
                    self._listed = self._value()
                elif kind == _WORD and after in ("=", "{") and self._declares():
                    self._place += 1 if after == "{" else 2
                    self._known[word] = self._value()
                elif word == "void":
                    self._listed = []
                    self._place += 1
                else:
                    self._place += 1
            except _Unreadable:
                left_out += behind == "test"
                self._place = begun + 3
        return found, left_out

    def _declares(self) -> bool:
        """Whether a value that cases use is declared here: a text, a message or a tool."""
        before = [word for _, word in self._tokens[max(0, self._place - 2) : self._place]]
        return any(
            word in ("std::string", "common_chat_msg", "common_chat_tool", "auto", "char")
            for word in [*before, *(["char"] if before[-1:] == ["*"] else [])]
        )

    def _case(self, variable: str) -> list[Case]:
        self._place += 3
        given: dict[str, list[Any]] = {"test": self._arguments()}
        while self._taken("."):
            name = self._tokens[self._place][1]
            self._place += 1
            given[name] = self._arguments()
        if _CONTINUED in given or "messages" in given or "run" not in given:
            return []
        expected = given["expect"][0] if "expect" in given else _Message()
        calls = expected.calls
        if "expect_tool_calls" in given:
            calls = [(one[0], one[1]) for one in given["expect_tool_calls"][0]]
        tools = given.get("tools", [[]])[0]
        listed = ", ".join(
            f'{{"type": "function", "function": {{"name": {_quoted(name)}, '
            f'"description": {_quoted(about)}, "parameters": {schema}}}}}'
            for name, about, schema in tools
        )
        json_tools = f"[{listed}]" if tools else ""
        return [
            Case(
                template=Path(template).stem,
                reply=given["test"][0],
                content=given.get("expect_content", [expected.content])[0],
                reasoning=given.get("expect_reasoning", [expected.reasoning])[0],
                calls=calls,
                tools=tools_of(json_tools),
                tools_json=json_tools,
                thinks=given.get("enable_thinking", [True])[0],
                keeps_reasoning=not str(given.get("reasoning_format", ["NONE"])[0]).endswith(
                    ("AUTO", "DEEPSEEK")
                ),
                whole=not given.get("is_partial", [False])[0],
                schema=given.get("json_schema", [""])[0],
            )
            for template in self._templates[variable]
        ]

    def _taken(self, word: str) -> bool:
        taken = self._tokens[self._place] == (_OTHER, word)
        self._place += taken
        return taken

    def _arguments(self, opening: str = "(", closing: str = ")") -> list[Any]:
        if not self._taken(opening):
            raise _Unreadable
        values: list[Any] = []
        while not self._taken(closing):
            values.append(self._value())
            if not self._taken(",") and self._tokens[self._place] != (_OTHER, closing):
                raise _Unreadable
        return values

    def _value(self) -> Any:
        value = self._term()
        while self._taken("+"):
            value += self._term()
        return value

    def _term(self) -> Any:
        kind, word = self._tokens[self._place]
        if kind == _TEXT:
            value = ""
            while self._tokens[self._place][0] == _TEXT:
                value += self._tokens[self._place][1]
                self._place += 1
            return value
        if (kind, word) == (_OTHER, "{"):
            return self._arguments("{", "}")
        if kind != _WORD:
            raise _Unreadable
        self._place += 1
        if self._tokens[self._place] == (_OTHER, "("):
            return _called(word, self._arguments())
        if word.startswith("COMMON_"):
            return word
        if word in self._known:
            return self._known[word]
        if word in ("path", "tmpl", "template_path", "detailed_debug"):
            return None
        raise _Unreadable


def _token(found: re.Match[str]) -> tuple[str, str] | None:
    if found["raw"] is not None:
        return _TEXT, found["raw"]
    if found["text"]:
        text: str = ast.literal_eval(found["text"].replace("\\\n", ""))
        return _TEXT, text
    if found["word"]:
        return _WORD, found["word"]
    return (_OTHER, found["other"]) if found["other"] else None


def _called(name: str, given: list[Any]) -> Any:
    """The message that one of the file's functions makes."""
    match name, given:
        case "std::string", [text]:
            return text
        case "simple_assist_msg", [content, *rest]:
            reasoning, tool, arguments = (*rest, "", "", "")[:3]
            return _Message(content, reasoning, [(tool, arguments)] if tool else [])
        case "message_with_tool_calls", [tool, arguments]:
            return _Message("", "", [(tool, arguments)])
        case "message_with_tool_calls_and_reasoning", [tool, arguments, reasoning]:
            return _Message("", reasoning, [(tool, arguments)])
        case "message_with_content_and_tool_call", [content, tool, arguments]:
            return _Message(content, "", [(tool, arguments)])
        case "message_with_reasoning_and_tool_call", [reasoning, tool, arguments]:
            return _Message("", reasoning, [(tool, arguments)])
        case "message_with_reasoning_content_and_multiple_tool_calls", [reasoning, content, calls]:
            return _Message(content, reasoning, [(name, given) for name, given in calls])
    raise _Unreadable


def _called_with(tokens: list[tuple[str, str]]) -> list[str]:
    """The templates that the file's only function with a template as parameter is called with."""
    words = [word for _, word in tokens]
    place = max((at for at, word in enumerate(words) if word == "test_lfm2_parser"), default=0)
    before = tokens[:place]
    start = max((at for at, token in enumerate(before) if token[1] == "for"), default=0)
    return [word for kind, word in before[start:] if kind == _TEXT]


def _quoted(text: Mapping[str, str] | str) -> str:
    return json.dumps(text)
