"""DSPy, which asks through LiteLLM: signatures, by OpenAI's API and by Ollama's."""

import dspy
from steps import BASE, MODEL, SERVER, step

SETTINGS = {"cache": False, "num_retries": 0, "temperature": 0.0, "max_tokens": 200}
MODELS = {
    "OpenAI": dspy.LM(f"openai/{MODEL}", api_base=BASE, api_key="x", **SETTINGS),
    "Ollama": dspy.LM(f"ollama_chat/{MODEL}", api_base=SERVER, api_key="", **SETTINGS),
}

for name, model in MODELS.items():

    @step(f"{name}: a text")
    def _(model=model):
        assert model("What is the capital of France?")[0]

    @step(f"{name}: an object by JSON")
    def _(model=model):
        with dspy.context(lm=model, adapter=dspy.JSONAdapter()):
            found = dspy.Predict("sentence: str -> age: int")(sentence="Ann is 30.")
        assert isinstance(found.age, int), found
