"""smolagents: a model of OpenAI's API, its tools, and an agent's first steps."""

import json

from smolagents import OpenAIModel, ToolCallingAgent, tool
from smolagents.models import ChatMessage
from steps import BASE, MODEL, PERSON, step

model = OpenAIModel(MODEL, api_base=BASE, api_key="x", temperature=0, max_tokens=80)
ASKED = [ChatMessage("user", [{"type": "text", "text": "What is the capital of France?"}])]


@tool
def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: The city's name.
    """
    return f"It rains in {city}."


@step("an answer, whole and streamed")
def _():
    whole = model.generate(ASKED).content
    assert whole
    streamed = "".join(part.content or "" for part in model.generate_stream(ASKED))
    assert streamed == whole, (streamed, whole)


@step("a schema")
def _():
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    found = json.loads(model.generate(ASKED, response_format=form).content)
    assert sorted(found) == ["age", "name"], found


@step("a call")
def _():
    answer = model.generate(ASKED, tools_to_call_from=[weather])
    assert answer.tool_calls[0].function.name == "weather"


@step("an agent makes a step")
def _():
    agent = ToolCallingAgent([weather], model, max_steps=1, verbosity_level=0)
    agent.run("Does it rain in Paris?")
    assert len(agent.memory.steps) > 1
