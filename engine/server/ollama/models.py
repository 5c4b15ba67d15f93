"""The models that are here, in the form of Ollama: /api/tags, /api/ps, /api/show, /api/version.

Reads a model's files for its size, family and numbers; those that cannot be read are empty.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.server.bodies import read_body
from engine.server.errors import Refusal
from engine.server.exchange import Call, Reply, json_reply
from engine.server.ollama.bodies import ShowBody
from engine.server.openai.fim import gap_of
from engine.server.service import Service
from models.errors import Problem
from models.memory.parameters import count_parameters
from models.model_folder import ModelFolder

Json = dict[str, Any]

VERSION = "0.13.0"  # of Ollama, whose API this is; clients ask for features by it
_NEVER = "9999-12-31T23:59:59Z"
_KEPT = 8  # descriptions


async def tags(service: Service, call: Call) -> Reply:
    """List the models that can be asked."""
    return json_reply({"models": [await _listed(service, name) for name in _names(service)]})


async def ps(service: Service, call: Call) -> Reply:
    """List the models that are loaded."""
    context = service.link.loaded.context_length if service.link.loaded else 0
    loaded = [await _listed(service, name) for name in _names(service)]
    return json_reply(
        {
            "models": [
                {**one, "expires_at": _NEVER, "size_vram": one["size"], "context_length": context}
                for one in loaded
            ]
        }
    )


async def show(service: Service, call: Call) -> Reply:
    """Describe a model."""
    body = read_body(ShowBody, call.body)
    name = (body.model or "").removesuffix(":latest")
    if name not in _names(service):
        raise Refusal(404, "model_not_found", f"The model {name!r} is not here.", "model")
    listed = await _listed(service, name)
    texts = await service.texts()
    abilities = {
        "tools": True,  # said in text where the template does not know them
        "thinking": texts.syntax.reasons,
        "insert": gap_of("", "", texts.marks) is not None,
    }
    return json_reply(
        {
            "modelfile": "",
            "parameters": "",
            "template": texts.template,
            "details": listed["details"],
            "model_info": await asyncio.to_thread(
                _model_info, service.loaded.target, service.loaded.context_length
            ),
            "capabilities": ["completion", *(name for name, able in abilities.items() if able)],
            "modified_at": listed["modified_at"],
        }
    )


async def version(service: Service, call: Call) -> Reply:
    """Say which version of Ollama's API this is."""
    return json_reply({"version": VERSION})


def _names(service: Service) -> list[str]:
    return [service.model] if service.link.loaded else []


async def _listed(service: Service, name: str) -> Json:
    return {
        "name": name,
        "model": name,
        **await asyncio.to_thread(_described, service.loaded.target),
    }


@lru_cache(_KEPT)
def _described(target: str) -> Json:
    """The size, the date and the details of the model in a folder."""
    folder = ModelFolder(Path(target))
    size = _read(lambda: folder.size_bytes, 0)
    changed = _read(lambda: (folder.path / "config.json").stat().st_mtime, 0.0)
    family = _read(lambda: folder.model_type, "")
    bits = _read(lambda: folder.quantization_bits, None)
    counted = count_parameters(_read(lambda: folder.config, {}))
    return {
        "modified_at": datetime.fromtimestamp(changed, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "size": size,
        "digest": hashlib.sha256(f"{target} {size} {changed}".encode()).hexdigest(),
        "details": {
            "parent_model": "",
            "format": "safetensors",
            "family": family,
            "families": [family] if family else [],
            "parameter_size": _in_words(counted.total) if counted else "",
            "quantization_level": f"Q{bits}" if bits else "F16",
        },
    }


def _model_info(target: str, context: int) -> Json:
    details = _described(target)["details"]
    family = details["family"] or "unknown"
    config: Mapping[str, Any] = _read(lambda: ModelFolder(Path(target)).config, {})
    counted = count_parameters(config)
    return {
        "general.architecture": family,
        "general.parameter_count": counted.total if counted else 0,
        f"{family}.context_length": context,
        f"{family}.embedding_length": config.get("hidden_size", 0),
        f"{family}.block_count": config.get("num_hidden_layers", 0),
    }


def _read[T](read: Callable[[], T], otherwise: T) -> T:
    try:
        return read()
    except (Problem, OSError):
        return otherwise


def _in_words(parameters: int) -> str:
    return f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.0f}M"
