"""pydantic-ai: agents with output types and tools, by OpenAI's API and by Ollama's provider."""

import asyncio
from typing import Annotated

from person import Person
from pydantic import Field
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from steps import BASE, MODEL, same, step

PROVIDER = OpenAIProvider(base_url=BASE, api_key="x")
SETTINGS = {"temperature": 0, "max_tokens": 80}
CHAT = OpenAIChatModel(MODEL, provider=PROVIDER)


MODELS = {
    "chat": CHAT,
    "responses": OpenAIResponsesModel(MODEL, provider=PROVIDER),
    "Ollama's provider": OpenAIChatModel(
        MODEL, provider=OllamaProvider(base_url=BASE, api_key="x")
    ),
}

for name, model in MODELS.items():

    @step(f"{name}: a text, and what goes on from it")
    def _(model=model):
        agent = Agent(model, model_settings=SETTINGS)
        first = agent.run_sync("What is the capital of France?")
        assert first.output
        second = agent.run_sync("Say that again.", message_history=first.all_messages())
        assert second.output


for name, output in (("a tool's", ToolOutput(Person)), ("a schema's", NativeOutput(Person))):

    @step(f"{name} form of an output")
    def _(output=output):
        agent = Agent(CHAT, output_type=output, model_settings=SETTINGS, retries=0)
        assert isinstance(agent.run_sync("Ann is 30. Who is that?").output, Person)


@step("a call of the past and its result are read")
def _():
    def weather(city: Annotated[str, Field(max_length=12)]) -> str:
        """The weather in a city."""
        return "It rains."

    call = ToolCallPart("weather", {"city": "Paris"}, "c1")
    history = [
        ModelRequest([UserPromptPart("Does it rain in Paris?")]),
        ModelResponse([call]),
        ModelRequest([ToolReturnPart("weather", "It rains.", "c1")]),
    ]
    agent = Agent(CHAT, tools=[weather], model_settings={**SETTINGS, "tool_choice": "none"})
    assert agent.run_sync(message_history=history).output


@step("a stream is the text")
def _():
    async def streamed() -> str:
        agent = Agent(CHAT, model_settings=SETTINGS)
        async with agent.run_stream("What is the capital of France?") as result:
            return "".join([part async for part in result.stream_text(delta=True)])

    whole = Agent(CHAT, model_settings=SETTINGS).run_sync("What is the capital of France?").output
    same(asyncio.run(streamed()), whole)
