"""llm with llm-ollama, which speaks Ollama's API only."""

import json
from pathlib import Path

from steps import MODEL, SERVER, command, same, step

HOME = Path("llm").absolute()
HOME.mkdir()


def llm(*arguments: str) -> str:
    return command("llm", *arguments, LLM_USER_PATH=str(HOME), OLLAMA_HOST=SERVER)


def asked(*arguments: str) -> str:
    options = ("-o", "temperature", "0", "-o", "num_predict", "40")
    return llm("-m", f"ollama/{MODEL}", *options, *arguments)


@step("it finds the model")
def _():
    assert MODEL in llm("ollama", "models")


@step("an answer, streamed and whole")
def _():
    streamed = asked("What is the capital of France?")
    assert streamed.strip()
    same(asked("--no-stream", "What is the capital of France?"), streamed)


@step("an answer by a schema")
def _():
    found = json.loads(asked("--schema", "age int", "How old is Ann? She is 30."))
    assert isinstance(found["age"], int), found
