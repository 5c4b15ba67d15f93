"""The models that are loaded, as Ollama's clients list them."""

import json
from pathlib import Path
from typing import Any

from tests.support.engine.asking import asking, run

CONFIG = {
    "model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 10,
    "max_position_embeddings": 64, "quantization": {"bits": 4, "group_size": 32},
}  # fmt: skip


def answered(method: str, path: str, target: str, **body: Any) -> tuple[int, Any]:
    async def ask() -> tuple[int, Any]:
        async with asking(target=target) as (client, _):
            response = await client.request(method, f"/api/{path}", json=body or None)
            return response.status_code, response.json()

    return run(ask())


def model(folder: Path, template: str = "") -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "chat_template.jinja").write_text(template)
    return str(folder)


def test_what_is_loaded_is_listed(tmp_path: Path) -> None:
    target = model(tmp_path / "tiny-4bit")
    _, listed = answered("GET", "tags", target)
    (one,) = listed["models"]
    assert one["name"] == one["model"] == "tiny-4bit"
    _, running = answered("GET", "ps", target)
    (same,) = running["models"]
    assert same["context_length"] == 4096
    assert one.items() <= same.items()
    for path in ("tags", "ps"):
        assert answered("GET", path, "") == (200, {"models": []})


def test_a_model_is_described(tmp_path: Path) -> None:
    target = model(tmp_path / "tiny-4bit", "<think></think> {{ messages }}")
    for name in ({"model": "tiny-4bit"}, {"name": "tiny-4bit:latest"}):
        status, found = answered("POST", "show", target, **name)
        assert status == 200
        assert found["capabilities"] == ["completion", "tools", "thinking"]
        assert found["template"] == "<think></think> {{ messages }}"
        assert found["model_info"]["llama.context_length"] == 4096
        assert found["parameters"] == "num_ctx 4096"
        assert found["details"]["family"] == "llama"
        assert found["details"]["quantization_level"] == "Q4"
    assert answered("POST", "show", target, system="x")[0] == 400


def test_a_folder_that_cannot_be_read_is_listed_all_the_same() -> None:
    _, listed = answered("GET", "tags", "/models/tiny")
    assert [one["size"] for one in listed["models"]] == [0]


def test_the_version_is_one_that_clients_compare() -> None:
    _, found = answered("GET", "version", "/models/tiny")
    assert [number.isdecimal() for number in found["version"].split(".")] == [True] * 3


def test_what_has_no_counterpart_says_what_is_missing() -> None:
    for method, path, word in (
        ("POST", "embed", "embeddings"),
        ("POST", "embeddings", "embeddings"),
        ("POST", "pull", "slipstream models"),
        ("DELETE", "delete", "slipstream models"),
        ("POST", "create", "slipstream models"),
    ):
        status, error = answered(method, path, "/models/tiny", model="x")
        assert (status, word in error["error"]) == (404, True)
