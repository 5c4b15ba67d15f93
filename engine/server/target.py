"""Reads from a model's folder what the server says of it: its name, and its chat template.

Missing files count as empty: the engine has checked that the model can be used.
"""

from contextlib import suppress
from pathlib import Path

from models.errors import Problem
from models.files import read_json_object


def name_of(target: str) -> str:
    """The name of a model in a folder: of the folder, or of its repository in the hub's cache."""
    path = Path(target)
    repository = path.parents[1].name if path.parent.name == "snapshots" else ""
    if repository.startswith("models--"):
        return repository.removeprefix("models--").replace("--", "/")
    return path.name


def template_of(target: str) -> str:
    """The chat template of a model in a folder, for tools if there are several; "" without one."""
    folder = Path(target)
    with suppress(OSError, UnicodeDecodeError):
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    found = None
    with suppress(Problem):
        found = read_json_object(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(found, list):  # several, each with a name
        named = {row.get("name"): row.get("template") for row in found if isinstance(row, dict)}
        found = named.get("tool_use") or named.get("default")
    return found if isinstance(found, str) else ""
