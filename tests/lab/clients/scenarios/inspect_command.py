"""Inspect: an agent's loop with a tool that must be called, several samples at once."""

import json
from pathlib import Path

from steps import BASE, MODEL, command, same, step

Path("task.py").write_text(
    '''from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import ToolFunction, tool


@tool
def weather():
    async def execute(city: str) -> str:
        """The weather in a city.

        Args:
            city: The city's name.
        """
        return "sunny"

    return execute


@task
def plain():
    samples = [Sample(input=f"What is {i} and 1?", target="") for i in range(4)]
    return Task(dataset=samples, solver=generate(), scorer=includes())


@task
def called():
    tools = use_tools(weather(), tool_choice=ToolFunction("weather"))
    solver = [tools, generate(tool_calls="single")]
    return Task(dataset=[Sample(input="How is the weather in Rome?", target="")], solver=solver)
'''
)


def evaluate(task):
    command(
        "inspect",
        "eval",
        f"task.py@{task}",
        *("--model", f"openai-api/slip/{MODEL}", "--max-connections", "4"),
        *("--temperature", "0", "--max-tokens", "60", "--display", "plain"),
        *("--log-format", "json", "--log-dir", task, "--max-retries", "0"),
        SLIP_API_KEY="x",
        SLIP_BASE_URL=BASE,
    )
    (log,) = Path(task).glob("*.json")
    found = json.loads(log.read_text())
    same(found["status"], "success")
    return found["samples"]


@step("four samples at once")
def _():
    samples = evaluate("plain")
    same(len(samples), 4)
    for sample in samples:
        assert sample["output"]["choices"][0]["message"]["content"], sample["output"]


@step("a tool that is named is called, and its result sent")
def _():
    (sample,) = evaluate("called")
    same(
        [message["content"] for message in sample["messages"] if message["role"] == "tool"],
        ["sunny"],
    )
