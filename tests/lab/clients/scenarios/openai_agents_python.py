"""openai-agents: agents by chat completions and by responses, with tools and output types."""

import asyncio

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from person import Person
from steps import BASE, MODEL, same, step

set_tracing_disabled(True)
QUESTION = "What is the capital of France?"


def model(kind: type):
    return kind(MODEL, AsyncOpenAI(base_url=BASE, api_key="x", max_retries=0, timeout=120))


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return "It rains."


for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
    settings = ModelSettings(temperature=0, max_tokens=60)

    @step(f"{kind.__name__}: an answer")
    def _(kind=kind, settings=settings):
        agent = Agent("A", instructions="Be brief.", model=model(kind), model_settings=settings)
        assert Runner.run_sync(agent, QUESTION).final_output

    @step(f"{kind.__name__}: a stream")
    def _(kind=kind, settings=settings):
        async def streamed() -> str:
            agent = Agent("A", model=model(kind), model_settings=settings)
            result = Runner.run_streamed(agent, QUESTION)
            async for _event in result.stream_events():
                pass
            return result.final_output

        assert asyncio.run(streamed())

    @step(f"{kind.__name__}: an object")
    def _(kind=kind, settings=settings):
        agent = Agent("A", model=model(kind), output_type=Person, model_settings=settings)
        assert isinstance(Runner.run_sync(agent, "Ann is 30.").final_output, Person)

    @step(f"{kind.__name__}: a call that is required, and its result")
    def _(kind=kind):
        one = ModelSettings(
            temperature=0, max_tokens=100, tool_choice="required", parallel_tool_calls=False
        )
        agent = Agent(
            "A",
            model=model(kind),
            tools=[weather],
            model_settings=one,
            tool_use_behavior="stop_on_first_tool",
        )
        result = Runner.run_sync(agent, "Does it rain in Paris?", max_turns=2)
        same(result.final_output, "It rains.")


@step("a call that was cut off is no end of the chat")
def _():
    cut = ModelSettings(temperature=0, max_tokens=18, tool_choice="required")
    chat = model(OpenAIChatCompletionsModel)
    agent = Agent("A", model=chat, tools=[weather], model_settings=cut)
    result = Runner.run_sync(agent, "Does it rain in Paris?", max_turns=3)
    assert any(item.type == "tool_call_output_item" for item in result.new_items)
