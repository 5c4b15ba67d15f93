"""llm, a command: a plain answer, and one by a schema."""

import json
from pathlib import Path

from steps import BASE, MODEL, command, same, step

HOME = Path("llm").absolute()
HOME.mkdir()
(HOME / "extra-openai-models.yaml").write_text(
    f"""- model_id: ours
  model_name: {MODEL}
  api_base: {BASE}
  api_key_name: ours
  supports_schema: true
  supports_tools: true
"""
)
(HOME / "keys.json").write_text('{"ours": "x"}')


def llm(*arguments: str) -> str:
    options = ("-o", "temperature", "0", "-o", "max_tokens", "40")
    return command("llm", "-m", "ours", *options, *arguments, LLM_USER_PATH=str(HOME))


@step("an answer, streamed and whole")
def _():
    streamed = llm("What is the capital of France?")
    assert streamed.strip()
    same(llm("--no-stream", "What is the capital of France?"), streamed)


@step("an answer by a schema")
def _():
    found = json.loads(llm("--schema", "age int", "How old is Ann? She is 30."))
    assert isinstance(found["age"], int), found
