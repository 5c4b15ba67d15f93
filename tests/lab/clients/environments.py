"""Other people's clients, and the environments that they are installed in, each in its own.

Knows how pip and npm install; not what the clients do.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from models.errors import Problem

_MARKER = "requirements.txt"  # written when all is there


@dataclass(frozen=True, slots=True)
class Client:
    """A client: what installs it, and the file in scenarios/ that tries it.

    `npm` says that npm installs it, and not pip; `sees`, that its scenario has steps with pictures.
    """

    name: str
    requirements: tuple[str, ...]
    scenario: str
    npm: bool = False
    sees: bool = False


_AI_SDK = (
    *("ai@6.0.326", "@ai-sdk/openai-compatible@2.0.92", "ollama-ai-provider-v2@3.6.0"),
    "zod@4.6.7",
)
CLIENTS = (
    Client("openai", ("openai==3.54.0",), "openai_python.py", sees=True),
    Client("openai-node", ("openai@7.57.0", "zod@4.6.7"), "openai_node.cjs", npm=True),
    Client("anthropic", ("anthropic==2.12.0",), "anthropic_python.py", sees=True),
    Client("anthropic-node", ("@anthropic-ai/sdk@1.12.0",), "anthropic_node.cjs", npm=True),
    Client("litellm", ("litellm==1.106.2", "mcp==2.3.0"), "litellm_python.py", sees=True),
    Client("instructor", ("instructor==1.17.0",), "instructor_python.py"),
    Client("ollama", ("ollama==0.6.3",), "ollama_python.py", sees=True),
    Client("ollama-node", ("ollama@0.6.4",), "ollama_node.cjs", npm=True),
    Client("llm-ollama", ("llm==0.36", "llm-ollama==0.19.1"), "llm_ollama_command.py"),
    Client("llm", ("llm==0.36",), "llm_command.py"),
    Client("aider", ("aider-chat==0.86.2",), "aider_command.py"),
    Client("inspect-ai", ("inspect-ai==0.3.285", "openai==3.54.0"), "inspect_command.py"),
    Client("promptfoo", ("promptfoo@0.123.1", "node@22.23.3"), "promptfoo_command.py", npm=True),
    Client(
        "langchain", ("langchain-openai==1.7.4", "langchain-ollama==1.1.0"), "langchain_python.py"
    ),
    Client("pydantic-ai", ("pydantic-ai-slim[openai]==2.68.0",), "pydantic_ai_python.py"),
    Client("openai-agents", ("openai-agents==0.24.0",), "openai_agents_python.py"),
    Client("smolagents", ("smolagents[openai]==1.26.0",), "smolagents_python.py"),
    Client("ai-sdk", _AI_SDK, "ai_sdk_node.cjs", npm=True),
    Client(
        "llama-index",
        ("llama-index-llms-openai-like==0.8.1", "llama-index-llms-ollama==0.11.0"),
        "llama_index_python.py",
    ),
    Client("dspy", ("dspy==3.4.1",), "dspy_python.py"),
    Client("codex", ("@openai/codex@0.171.0",), "codex_command.py", npm=True),
    Client("opencode", ("opencode-ai@1.18.33",), "opencode_command.py", npm=True),
)


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a client is installed; `folder` is absolute, as scenarios run elsewhere."""

    folder: Path
    npm: bool

    @property
    def commands(self):
        """The folder with the client's commands."""
        return self.folder / ("node_modules/.bin" if self.npm else "bin")

    @property
    def modules(self):
        """The folder with the modules that npm installed."""
        return self.folder / "node_modules"

    def interpreter(self, scenario):
        """The program that runs the scenario."""
        if scenario.suffix == ".cjs":
            return "node"
        return sys.executable if self.npm else str(self.commands / "python")


def prepare(client, environments):
    """The client's environment, installed where it is not there or holds other versions.

    Raises Problem where that fails.
    """
    environment = Environment(environments.absolute() / client.name, client.npm)
    marker = environment.folder / _MARKER
    wanted = "\n".join(client.requirements) + "\n"
    if marker.is_file() and marker.read_text(encoding="utf-8") == wanted:
        return environment
    shutil.rmtree(environment.folder, ignore_errors=True)
    environment.folder.mkdir(parents=True)
    if client.npm:
        options = ("--no-fund", "--no-audit", "--silent", "--prefix", str(environment.folder))
        _run("npm", "install", *options, *client.requirements)
    else:
        _run(sys.executable, "-m", "venv", str(environment.folder))
        python = str(environment.commands / "python")
        _run(python, "-m", "pip", "install", "--quiet", *client.requirements)
    marker.write_text(wanted, encoding="utf-8")
    return environment


def _run(*command):
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Problem(f"{command[0]} is not installed.", "Install Node.js, with npm.") from error
    except subprocess.CalledProcessError as error:
        said = [line for line in error.stderr.splitlines() if "error" in line.lower()]
        reason = (said or [f"status {error.returncode}"])[0].strip()
        raise Problem(
            f"{command[-1]} cannot be installed: {reason}",
            "Check the network connection, and which Python versions it supports.",
        ) from error
