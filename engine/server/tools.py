"""The tools that a chat may call, in the notation that OpenAI's chats and Ollama share."""

from typing import Any, Literal

from pydantic import Field

from engine.server.bodies import Body, Object

MOST_TOOLS = 256


class Function(Body):
    name: str = Field(min_length=1, max_length=256)
    description: str = ""
    parameters: Object = Field(default_factory=dict)
    strict: bool = False


class Tool(Body):
    type: Literal["function"] = "function"
    function: Function


class ChosenFunction(Body):
    name: str


class ChosenTool(Body):
    type: Literal["function"] = "function"
    function: ChosenFunction


class AllowedTools(Body):
    mode: Literal["auto", "required"]
    tools: list[ChosenTool]


class AllowedChoice(Body):
    """The tools that may be called."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


ToolChoice = Literal["none", "auto", "required", "any"] | AllowedChoice | ChosenTool


class ToolFields(Body):
    """The tools of a chat, and the choice among them."""

    tools: list[Tool] = Field(default_factory=list, max_length=MOST_TOOLS)
    tool_choice: ToolChoice = "auto"

    @property
    def choice(self) -> str:
        """The choice as "none", "auto", "required", or the name of a tool."""
        match self.tool_choice:
            case ChosenTool(function=function):
                return function.name
            case AllowedChoice(allowed_tools=allowed):
                return allowed.mode
            case "any":
                return "required"
            case choice:
                return choice

    @property
    def callable_functions(self) -> list[dict[str, Any]]:
        """The tools that may be called, for prompts and grammars."""
        choice = self.tool_choice
        if choice == "none":
            return []
        functions = [tool.function.model_dump() for tool in self.tools]
        if not isinstance(choice, AllowedChoice):
            return functions
        allowed = {tool.function.name for tool in choice.allowed_tools.tools}
        return [function for function in functions if function["name"] in allowed]
