"""Settings that all dialects have: sampling, tools and the choice among them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.request import Sampling
from engine.server.errors import invalid

_GREEDY_BELOW = 0.001


def sampling_of(
    default: Sampling,
    *,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
) -> Sampling:
    """The model's default sampling, with the client's values in place of its own.

    Temperature 0 gives the likeliest tokens, without the default's penalties.
    """
    if top_p == 0:  # the likeliest token alone; in `Sampling` it would mean "all"
        top_p, temperature = 1.0, 0.0
    if temperature is not None and temperature < _GREEDY_BELOW:
        temperature = 0.0
    if temperature == 0.0:
        default = Sampling()
    fields = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    return replace(default, **given)


def tools_json(functions: Sequence[Mapping[str, Any]]) -> str:
    """The JSON text of OpenAI's list of tools, for a prompt; "" without functions."""
    if not functions:
        return ""
    tools = [{"type": "function", "function": function} for function in functions]
    return json.dumps(tools, ensure_ascii=False)


def check_choice(choice: str, names: Sequence[str]) -> None:
    """Raise Refusal if the chosen tool is not among `names`."""
    if choice in ("none", "auto") or choice in names or (choice == "required" and names):
        return
    there = f"The tools are {', '.join(names[:20])}." if names else "There are no tools."
    what = "asks for a call" if choice == "required" else f"names {choice!r}"
    raise invalid(f"tool_choice {what}. {there}", "tool_choice")
