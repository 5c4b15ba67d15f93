"""Runs a client's scenario against a server, and reads what it reports.

A scenario is a program in scenarios/ that runs in the client's own environment, in an empty folder,
and prints a line of JSON for each step. Knows no client.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

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
