"""A model folder in the form that mlx-lm and transformers read as its makers meant it.

They refuse a byte order mark in JSON, have no form of chats without a template, and warn of
Mistral's tokenizers, whose earlier converters split words in another way.
"""

import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from models.errors import Problem
from models.files import read_json_object
from models.gguf.tokenizer import SPLIT_BY

CHATML = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] + '\n' + message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_MISTRALS = ("mistral", "mistral3", "ministral", "ministral3", "pixtral", "voxtral")
_MOST_BYTES = 100_000_000
TOKENIZER = {"trust_remote_code": False, "fix_mistral_regex": False}
"""How a tokenizer is loaded from such a folder."""


@contextmanager
def for_libraries(folder: Path, model_type: str = "") -> Iterator[Path]:
    """Yield the folder itself or, inside the block, a folder of links next to changed copies.
    `model_type`: of a model whose tokenizer is read."""
    marked = [path for path in folder.glob("*.json") if _is_marked(path)]
    changed = {path.name: path.read_bytes().removeprefix(BOM_UTF8) for path in marked}
    changed |= _template(folder) | _splitting(folder, model_type)
    if not changed:
        yield folder
        return
    with TemporaryDirectory(prefix="slipstream-") as name:
        for path in folder.iterdir():
            if path.name not in changed:
                (Path(name) / path.name).symlink_to(path.absolute())
        for file, data in changed.items():
            (Path(name) / file).write_bytes(data)
        yield Path(name)


def _is_marked(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(len(BOM_UTF8)) == BOM_UTF8
    return False


def _template(folder: Path) -> dict[str, bytes]:
    """ChatML for a folder without a template whose tokenizer has the marks of it."""
    stated = _object(folder / "tokenizer_config.json").get("chat_template")  # may be null
    if stated or any(folder.glob("chat_template.*")):
        return {}
    known = _added(_object(folder / "tokenizer.json")) >= {"<|im_start|>", "<|im_end|>"}
    return {"chat_template.jinja": CHATML.encode()} if known else {}


def _splitting(folder: Path, model_type: str) -> dict[str, bytes]:
    """The tokenizer of a Mistral with its makers' splitting, where the file has Llama 3's."""
    tokenizer = _object(folder / "tokenizer.json") if model_type in _MISTRALS else {}
    text, theirs = json.dumps(tokenizer), json.dumps(SPLIT_BY["llama-bpe"])
    if "[INST]" not in _added(tokenizer) or theirs not in text:
        return {}
    return {"tokenizer.json": text.replace(theirs, json.dumps(SPLIT_BY["tekken"])).encode()}


def _added(tokenizer: dict[str, Any]) -> set[object]:
    listed = tokenizer.get("added_tokens")
    tokens = listed if isinstance(listed, list) else []
    return {token.get("content") for token in tokens if isinstance(token, dict)}


def _object(path: Path) -> dict[str, Any]:
    with suppress(Problem):
        return read_json_object(path, maximum_bytes=_MOST_BYTES)
    return {}
