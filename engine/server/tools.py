"""The tools of a request and the choice among them, in the notations of all dialects."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from engine.replies.schemas import complaint_about, problem
from engine.request import CallRules
from engine.server.bodies import Body, named
from engine.server.errors import invalid

Name = Annotated[str, Field(min_length=1)]


class Function(Body):
    """A tool that takes an object. Anthropic calls the schema of that `input_schema`."""

    name: Name
    description: str = ""
    parameters: dict[str, Any] = named("parameters", "input_schema", default={})
    strict: bool = False

    @model_validator(mode="before")
    @classmethod
    def _object(cls, value: Any) -> Any:
        inner = value.get("function") if isinstance(value, dict) else None
        return {**value, **inner} if isinstance(inner, dict) else value

    def value(self, name: str = "") -> dict[str, Any]:
        """The function for prompts and grammars, under another `name` if one is given."""
        return {
            "name": name or self.name,
            "description": self.description,
            "parameters": self.parameters or {"type": "object", "properties": {}},
            "strict": self.strict,
        }


class FunctionTool(Body):
    """A tool in the notation of OpenAI's chats and of Ollama."""

    type: Literal["function"] = "function"
    function: Function

    @model_validator(mode="before")
    @classmethod
    def _nested(cls, value: Any) -> Any:
        """The tools of the other dialects have their fields at the top."""
        flat = isinstance(value, dict) and "function" not in value and "name" in value
        own = flat and value.get("type") in (None, "function", "custom")
        return {"function": value} if own else value


class Named(Body):
    """The choice of a tool that must be called."""

    name: Name
    disable_parallel_tool_use: bool = False


class Mode(Body):
    """The choice whether a tool is called; if there are `allowed` ones, one of these."""

    mode: Literal["none", "auto", "required"]
    allowed: list[str] | None = None
    disable_parallel_tool_use: bool = False


def _choice(value: Any) -> Any:
    """A choice in the notation of any dialect, as a `Mode` or a `Named`."""
    match value:
        case Named() | Mode():
            return value.model_dump()
        case str():
            return {"mode": "required" if value == "any" else value}
        case {"type": "function" | "custom" | "tool"}:
            function = value.get("function")
            return function if isinstance(function, dict) else {"name": None, **value}
        case {"type": "allowed_tools", **rest}:
            given = rest.get("allowed_tools", rest)
            if not isinstance(given, dict):
                return {"mode": given}
            tools = given.get("tools")
            allowed = [_name_in(tool) for tool in tools] if isinstance(tools, list) else []
            return {"allowed": allowed, "mode": given.get("mode")}
        case {"type": kind}:
            return {**value, "mode": "required" if kind == "any" else kind}
        case _:
            return {"mode": value}


def _name_in(tool: Any) -> Any:
    match tool:
        case {"function": {"name": name}} | {"name": name}:
            return name
        case _:
            return tool


class ChoiceFields(Body):
    """The choice among the tools."""

    parallel_tool_calls: bool = True
    tool_choice: Annotated[
        Annotated[Named, Tag("Named")] | Annotated[Mode, Tag("Mode")],
        Discriminator(lambda choice: "Mode" if "mode" in choice else "Named"),
        BeforeValidator(_choice),
    ] = Mode(mode="auto")

    @property
    def choice(self) -> str:
        """The choice as "none", "auto", "required", or the name of a tool."""
        chosen = self.tool_choice
        return chosen.name if isinstance(chosen, Named) else chosen.mode

    @property
    def parallel(self) -> bool:
        """Whether an answer may have several calls."""
        return self.parallel_tool_calls and not self.tool_choice.disable_parallel_tool_use

    def may_call(self, name: str) -> bool:
        """Whether the choice allows calls of a tool."""
        chosen = self.tool_choice
        if isinstance(chosen, Named):
            return True
        return chosen.mode != "none" and (chosen.allowed is None or name in chosen.allowed)


class ToolFields(ChoiceFields):
    """The tools of a chat, and the choice among them."""

    tools: list[FunctionTool] = Field(default_factory=list)

    @property
    def functions(self) -> list[dict[str, Any]]:
        """The tools that may be called, for prompts and grammars."""
        functions = (tool.function for tool in self.tools)
        return [function.value() for function in functions if self.may_call(function.name)]


def tools_json(functions: Sequence[Mapping[str, Any]]) -> str:
    """The JSON text of OpenAI's list of tools, for a prompt; "" without functions."""
    if not functions:
        return ""
    tools = [{"type": "function", "function": function} for function in functions]
    return json.dumps(tools, ensure_ascii=False)


def call_rules(
    choice: str,
    functions: Collection[Mapping[str, Any]],
    *,
    parallel: bool = True,
) -> CallRules:
    """Return the rules for calls of these functions. Raises Refusal if the chosen one is not among
    them, or if no arguments can be held to the schema of a strict one."""
    for function in functions:
        if function["strict"] and (complaint := complaint_about(function["parameters"])):
            kind = f"schema of the strict tool {function['name']}"
            raise invalid(str(problem(kind, complaint)), "tools")
    names = [function["name"] for function in functions]
    if choice not in ("none", "auto", *names) and not (choice == "required" and names):
        known = f"The tools are {', '.join(names[:20])}." if names else "The request has no tools."
        asked = "asks for a call" if choice == "required" else f"names {choice!r}"
        raise invalid(f"tool_choice {asked}. {known}", "tool_choice")
    choice = "auto" if choice == "none" else choice
    return CallRules(choice=choice, parallel=parallel, strict=True)
