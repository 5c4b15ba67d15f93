"""Asks an engine through the window, the terminal and the server, and returns what each says."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from PySide6.QtWidgets import QApplication

from app.chat.conversation import DEFAULTS
from app.conversations.records import Message, settings_to_json
from app.window import Window
from engine.events import Prefill
from engine.request import Sampling
from tests.lab.five_families.engine import COMMAND, PROMPTS
from tests.lab.five_families.families import QUESTIONS, TOOL
from tests.lab.pictures.real_pair import until
from tests.support.app.window_maker import make_window

_GREEDY = replace(DEFAULTS, sampling=Sampling())


@dataclass(frozen=True)
class Asked:
    """One answer: what it says, and the tokens of its prompt; `reused` of them were not read."""

    content: str
    reasoning: str
    calls: tuple[tuple[str, Any], ...] = ()
    total: int = 0
    reused: int = 0


class Prompts:
    """The prompts that an engine noted, as tokens, in order."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._path = path

    @property
    def environment(self) -> dict[str, str]:
        return {PROMPTS: str(self._path)}

    def of_length(self, total: int) -> list[int]:
        """The latest of that length."""
        noted = [json.loads(line) for line in self._path.read_text().splitlines()]
        found: list[int] = next(tokens for tokens in reversed(noted) if len(tokens) == total)
        return found


class InWindow:
    """A window whose conversations think."""

    def __init__(
        self, application: QApplication, home: Path, target: Path, prompts: Prompts
    ) -> None:
        os.environ |= prompts.environment
        home.mkdir()
        self.window: Window = make_window(application, home, (*COMMAND, "host"), target=target)
        window = self.window
        window.settings.keep_thinking(window.loader.pair.target, "on")
        window.resize(1100, 760)
        window.show()
        window.begin()
        until(lambda: window.loader.loaded is not None)

    def ask(self, question: str, *, most_tokens: int = 1024) -> Asked:
        """Ask in the open conversation; without messages, in a new one."""
        window = self.window
        settings = replace(_GREEDY, max_tokens=most_tokens, thinking="on")
        if window.conversation.record is None:
            window.settings.new_settings = settings_to_json(settings)
        before = len(window.conversation.branch)
        window.composer.set_text(question)
        window.composer.send()
        return self._answered(before + 2)

    def go_on(self) -> Asked:
        """Continue the last answer, which was cut, without a limit."""
        conversation = self.window.conversation
        conversation.configure(system_prompt="", settings=replace(_GREEDY, thinking="on"))
        until(lambda: conversation.settings.max_tokens == _GREEDY.max_tokens)
        cut = conversation.branch[-1].id
        conversation.go_on(cut)
        until(lambda: conversation.branch[-1].id != cut)
        return self._answered(len(conversation.branch))

    def new(self) -> None:
        """Begin another conversation."""
        self.window.menus.actions["new"].trigger()
        until(lambda: self.window.conversation.record is None)

    def written(self) -> str:
        """All that the last answer wrote, with its marks."""
        return self.window.conversation.branch[-1].content

    def save(self, path: Path) -> None:
        """Save a picture."""
        view = self.window.transcript.messages[-1].view
        self.window.transcript.write_all()
        until(lambda: view.isVisible())
        self.window.grab().save(str(path))

    def close(self) -> None:
        self.window.close()

    def _answered(self, messages: int) -> Asked:
        conversation = self.window.conversation
        until(
            lambda: (
                len(conversation.branch) == messages
                and conversation.branch[-1].state != "streaming"
                and not conversation.busy
            )
        )
        last: Message = conversation.branch[-1]
        until(lambda: self._read(last.id))
        said, read = last.as_chat[-1], self._read(last.id)[-1]
        return Asked(said.content, said.reasoning, total=read.total, reused=read.reused)

    def _read(self, message: int) -> list[Prefill]:
        events = self.window.store.trace(message).result()
        return [event for event in events if isinstance(event, Prefill)]


def in_terminal(target: Path, saved: Path, questions: Sequence[str]) -> list[Asked]:
    """The answers of a chat in the terminal, which `saved` gets as JSON."""
    command = (*COMMAND, "chat", "--target", str(target), "--thinking", "on", "--temperature", "0")
    lines = "".join(f"{line}\n" for line in (*questions, f"/save {saved}", "/quit"))
    shown = subprocess.run(
        (*command, "--drafter", "lookup"), input=lines, capture_output=True, text=True, check=True
    ).stdout
    counts = [
        tuple(map(int, found)) for found in re.findall(r"(\d+)\s+tokens\s+read,\s+(\d+)", shown)
    ]
    said = [one for one in json.loads(saved.read_text())["messages"] if one["role"] == "assistant"]
    for one in said:
        assert one["reasoning_content"] in shown.replace("\n", " "), shown
    assert not re.search(r"<[|｜/]|[|｜]>|<think", shown.split("/help.")[1]), shown
    return [
        Asked(one["content"], one["reasoning_content"], total=read + reused, reused=reused)
        for one, (read, reused) in zip(said, counts, strict=True)
    ]


@contextmanager
def serving(target: Path) -> Iterator[Callable[[str, dict[str, Any]], Any]]:
    """A server, and a function that posts a body to a path of it."""
    command = (*COMMAND, "serve", "--target", str(target), "--port", "0", "--drafter", "lookup")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            address = re.search(r"http://\S+", line)
            assert address is not None, line

            def post(path: str, body: dict[str, Any]) -> Any:
                headers = {"Content-Type": "application/json"}
                request = Request(f"{address[0]}{path}", json.dumps(body).encode(), headers)
                with build_opener(ProxyHandler({})).open(request) as response:
                    return json.load(response)

            yield post
        finally:
            server.terminate()


def by_openai(post: Callable[..., Any], result: str) -> list[Asked]:
    """A question, its call, and the answer to the call's result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTIONS[2]}]
    body = {"tools": [{"type": "function", "function": TOOL}], "reasoning_effort": "medium"}
    asked = []
    for _ in range(2):
        reply = post("/v1/chat/completions", {"messages": messages, "temperature": 0, **body})
        message, usage = reply["choices"][0]["message"], reply["usage"]
        calls = message.get("tool_calls") or []
        asked.append(
            Asked(
                message["content"] or "",
                message.get("reasoning_content", ""),
                tuple(
                    (one["function"]["name"], json.loads(one["function"]["arguments"]))
                    for one in calls
                ),
                total=usage["prompt_tokens"],
                reused=usage["prompt_tokens_details"]["cached_tokens"],
            )
        )
        messages.append(message)
        messages += [
            {"role": "tool", "tool_call_id": one["id"], "content": result} for one in calls
        ]
    return asked


def by_anthropic(post: Callable[..., Any], result: str) -> list[Asked]:
    """The same by Anthropic's API."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTIONS[2]}]
    tool = {
        "name": TOOL["name"],
        "description": TOOL["description"],
        "input_schema": TOOL["parameters"],
    }
    body = {
        "tools": [tool],
        "thinking": {"type": "enabled", "budget_tokens": 500},
        "max_tokens": 900,
    }
    asked = []
    for _ in range(2):
        reply = post("/v1/messages", {"messages": messages, "temperature": 0, **body})
        blocks, usage = reply["content"], reply["usage"]
        calls = [one for one in blocks if one["type"] == "tool_use"]
        asked.append(
            Asked(
                "".join(one["text"] for one in blocks if one["type"] == "text"),
                "".join(one["thinking"] for one in blocks if one["type"] == "thinking"),
                tuple((one["name"], one["input"]) for one in calls),
                total=usage["input_tokens"] + usage["cache_read_input_tokens"],
                reused=usage["cache_read_input_tokens"],
            )
        )
        results = [
            {"type": "tool_result", "tool_use_id": one["id"], "content": result} for one in calls
        ]
        messages += [{"role": "assistant", "content": blocks}]
        messages += [{"role": "user", "content": results}] if results else []
    return asked
