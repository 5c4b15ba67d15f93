"""The wishes for thinking, alike in all dialects, under the names of all neighbours."""

import json
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from engine.request import Thinking, thinking_of
from engine.server.bodies import WHOLE, Body, named
from engine.server.wishes import flag_in

Budget = Annotated[
    Annotated[int, Field(ge=0), WHOLE] | None,
    BeforeValidator(lambda tokens: None if tokens == -1 else tokens),
]


Kind = Literal["enabled", "adaptive", "between_tools", "auto", "disabled"]
_SWITCHES = {"enable_thinking", "thinking"}  # variables of templates


def _known(effort: str) -> str:
    """The word for an effort, which must be known: another could be meant as a no."""
    if effort not in ("none", *get_args(Thinking)):
        raise ValueError(f"{effort[:20]!r} is not known. Send true, false, or an effort")
    return effort


class Reasoning(Body):
    """The wish of OpenRouter, of OpenAI's responses, and, by its `type`, of Anthropic."""

    type: Kind | None = None
    enabled: bool | None = named("enabled", "enable")
    effort: Annotated[str, AfterValidator(_known)] = ""
    max_tokens: Budget = named("max_tokens", "budget_tokens")
    exclude: bool = False
    display: Literal["summarized", "omitted"] | None = None

    @property
    def levels(self) -> list[Thinking]:
        """The effort, and whether the model thinks, as far as the client gives them."""
        efforts = [thinking_of(self.effort)] if self.effort else []
        switch = self.enabled if self.type is None else self.type != "disabled"
        if switch is None and self.max_tokens:
            switch = True
        return efforts if switch is None else [*efforts, "on" if switch else "off"]


def _as_object(wish: Any) -> Any:
    """A wish by its word."""
    if (flag := flag_in(wish)) is not None:
        return {"enabled": flag}
    if wish in get_args(Kind):
        return {"type": wish}
    return {"effort": _known(wish)} if isinstance(wish, str) else wish


def _variables(given: dict[str, Any]) -> dict[str, Any]:
    """A template takes a word for true, so that switches must be booleans."""
    for name in _SWITCHES & given.keys():
        _as_object(given[name])
        given = given | {name: given[name] if (flag := flag_in(given[name])) is None else flag}
    return given


Wish = Annotated[Reasoning | None, BeforeValidator(_as_object)]


class ThinkingFields(Body):
    """Fields for thinking. If one of them says "off", the model does not think."""

    reasoning_effort: Wish = None
    reasoning: Wish = None
    think: Wish = None
    thinking: Wish = None
    enable_thinking: Wish = None
    thinking_budget: Budget = named(
        *("thinking_budget", "thinking_token_budget", "thinking_budget_tokens"),
        *("reasoning_budget", "reasoning_budget_tokens"),
    )
    include_reasoning: bool = True
    chat_template_kwargs: Annotated[dict[str, Any], AfterValidator(_variables)] = Field(
        default_factory=dict
    )

    @property
    def wish(self) -> Thinking:
        """Whether the model thinks, and with how much effort; "" leaves it to the model."""
        levels = [level for wish in self._wishes for level in wish.levels]
        return min(levels, key=lambda level: (level != "off", level == "on"), default="")

    @property
    def budget(self) -> int | None:
        """The number of tokens of reasoning after which the answer begins."""
        given = (self.thinking_budget, *(wish.max_tokens for wish in self._wishes))
        return next((tokens for tokens in given if tokens is not None), None)

    @property
    def hidden(self) -> bool:
        """Whether the reasoning is left out of the response."""
        return not self.include_reasoning or any(wish.exclude for wish in self._wishes)

    @property
    def reasoning_field(self) -> str:
        """The name of the reasoning in a response: OpenRouter's, if the client has its words.
        Clients that read both names would show a text twice."""
        theirs = self.reasoning is not None or "include_reasoning" in self.model_fields_set
        return "reasoning" if theirs else "reasoning_content"

    @property
    def variables(self) -> str:
        """The variables of the chat template, for a prompt."""
        return json.dumps(self.chat_template_kwargs) if self.chat_template_kwargs else ""

    @property
    def _wishes(self) -> list[Reasoning]:
        own = (self.reasoning_effort, self.reasoning, self.think, self.thinking)
        given = self.chat_template_kwargs
        switches = [on for on in map(given.get, _SWITCHES) if isinstance(on, bool | str)]
        kwargs = [Reasoning.model_validate(_as_object(on)) for on in switches]
        effort = given.get("reasoning_effort")
        kwargs += [Reasoning.model_construct(effort=effort)] if isinstance(effort, str) else []
        return [wish for wish in (*own, self.enable_thinking, *kwargs) if wish is not None]
