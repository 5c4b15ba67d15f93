"""Other people's clients, and the environments that they are installed in, each in its own.

Knows how pip and npm install; not what the clients do.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

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
    Client("ollama", ("ollama==0.6.3",), "ollama_python.py", sees=True),
    Client("ollama-node", ("ollama@0.6.4",), "ollama_node.cjs", npm=True),
    Client("pydantic-ai", ("pydantic-ai-slim[openai]==2.68.0",), "pydantic_ai_python.py"),
    Client("ai-sdk", _AI_SDK, "ai_sdk_node.cjs", npm=True),
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


# Scenarios are programs that run in a client's environment and print a line of JSON for each step

SCENARIOS = Path(__file__).parent / "scenarios"
_SECONDS = 900
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONWARNINGS": "ignore",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """A step of a scenario; `why` is what went wrong, and empty where it passed."""

    step: str
    why: str


@dataclass(frozen=True, slots=True)
class Served:
    """What clients are pointed at: the server's address and its model. `sees`: it is a tiny one
    that is only asked about pictures."""

    address: str
    model: str
    sees: bool = False


def play(scenario, environment, served):
    """The outcome of each step, as it comes, and one more where the scenario breaks off."""
    path = SCENARIOS / scenario
    variables = {name: os.environ[name] for name in ("LANG", "TZ") if name in os.environ}
    variables |= _QUIET | {
        "CLIENTS_SERVER": served.address,
        "CLIENTS_MODEL": served.model,
        "CLIENTS_SEES": "yes" if served.sees else "",
        "CLIENTS_COMMANDS": str(environment.commands),
        "NODE_PATH": str(environment.modules),
        "PATH": f"{environment.commands}{os.pathsep}{os.environ['PATH']}",
    }
    with TemporaryDirectory() as folder:
        errors = Path(folder) / "errors.txt"
        work = Path(folder) / "work"
        work.mkdir()
        with (
            errors.open("wb") as stderr,
            subprocess.Popen(
                ["timeout", str(_SECONDS), environment.interpreter(path), str(path)],
                cwd=work,
                env=variables | {"HOME": str(work)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            ) as process,
        ):
            for line in process.stdout:
                if (outcome := _outcome(line)) is not None:
                    yield outcome
        if process.returncode != 0:
            last = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            yield Outcome("to the end", " ".join(last[-3:]) or f"status {process.returncode}")


def _outcome(line):
    """None where it is something else that the client prints."""
    try:
        read = json.loads(line)
        return Outcome(read["step"], read["why"])
    except (ValueError, LookupError, TypeError):
        return None
