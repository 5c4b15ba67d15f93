"""LlamaIndex: its models for servers like OpenAI's, and for Ollama."""

import json

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.ollama import Ollama
from llama_index.llms.openai_like import OpenAILike
from person import Person
from steps import BASE, MODEL, SERVER, same, step

QUESTION = [ChatMessage("What is the capital of France?", role="user")]
MODELS = {
    "OpenAI": OpenAILike(
        model=MODEL, api_base=BASE, api_key="x", is_chat_model=True, is_function_calling_model=True,
        temperature=0, max_tokens=40, timeout=600, max_retries=0,
    ),
    "Ollama": Ollama(
        model=MODEL, base_url=SERVER, request_timeout=600,
        additional_kwargs={"temperature": 0, "num_predict": 40},
    ),
}  # fmt: skip


def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


for name, model in MODELS.items():

    @step(f"{name}: a chat, whole and streamed")
    def _(model=model):
        whole = model.chat(QUESTION).message.content
        assert whole
        same("".join(part.delta or "" for part in model.stream_chat(QUESTION)), whole)

    @step(f"{name}: a text")
    def _(model=model):
        assert model.complete("Once upon a").text

    @step(f"{name}: tools")
    def _(model=model):
        tool = FunctionTool.from_defaults(weather)
        assert model.chat_with_tools([tool], user_msg="Does it rain in Paris?").message

    @step(f"{name}: an object")
    def _(model=model):
        found = model.as_structured_llm(Person).complete("Ann is 30.")
        assert {*json.loads(found.text)} == {"name", "age"}, found.text
