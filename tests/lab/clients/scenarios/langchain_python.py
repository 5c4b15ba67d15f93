"""LangChain: its packages for OpenAI and for Ollama, as programs use them."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_ollama import ChatOllama, OllamaLLM
from langchain_openai import ChatOpenAI
from person import Person
from steps import BASE, MODEL, SERVER, same, step

QUESTION = "What is the capital of France?"
WORDS = {"temperature": 0}
MODELS = {
    "OpenAI": ChatOpenAI(
        model=MODEL, base_url=BASE, api_key="x", max_tokens=40, timeout=120, max_retries=0, **WORDS
    ),
    "Ollama": ChatOllama(model=MODEL, base_url=SERVER, num_predict=40, **WORDS),
}


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"It rains in {city}."


for name, model in MODELS.items():

    @step(f"{name}: a chat, whole and streamed")
    def _(model=model):
        whole = model.invoke(QUESTION)
        assert whole.content
        assert whole.usage_metadata["output_tokens"] > 0
        same("".join(part.content for part in model.stream(QUESTION)), whole.content)

    @step(f"{name}: an object by a schema")
    def _(model=model):
        bound = model.with_structured_output(Person, method="json_schema")
        assert isinstance(bound.invoke("Ann is 30. Who is that?"), Person)

    @step(f"{name}: tools, and a call of the past with its result")
    def _(model=model):
        bound = model.bind_tools([weather])
        assert bound.invoke(QUESTION)
        call = {"name": "weather", "args": {"city": "Paris"}, "id": "c1", "type": "tool_call"}
        said = [
            HumanMessage("Does it rain?"),
            AIMessage("", tool_calls=[call]),
            ToolMessage(weather.invoke(call["args"]), tool_call_id="c1"),
        ]
        assert bound.invoke(said).content


@step("OpenAI: a call that is required, with arguments that fit")
def _():
    model = MODELS["OpenAI"].bind_tools([weather], tool_choice="weather")
    (call,) = model.invoke("Does it rain in Paris?").tool_calls
    same([*call["args"]], ["city"])


@step("Ollama: a text")
def _():
    model = OllamaLLM(model=MODEL, base_url=SERVER, num_predict=12, temperature=0)
    assert model.invoke(QUESTION)
