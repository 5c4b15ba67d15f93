"""The models that are here, in the form of Ollama: /api/tags, /api/ps, /api/show, /api/version.

Reads a model's files for its size, family and numbers; those that cannot be read are empty.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.server.bodies import read_body
from engine.server.errors import invalid
from engine.server.exchange import Call, Reply, json_reply
from engine.server.fim import gap_of
from engine.server.models import context_of
from engine.server.ollama.bodies import ShowBody
from engine.server.pool import Pair
from engine.server.service import Service
from engine.server.target import TargetTexts
from models.errors import Problem
from models.memory.parameters import count_parameters
from models.model_folder import ModelFolder

Json = dict[str, Any]

VERSION = "0.13.5"  # of Ollama, whose API this is; clients ask for features by it
_NEVER = "9999-12-31T23:59:59Z"
_LONGEST_SECONDS = 365 * 86_400.0
_KEPT = 64  # descriptions


async def tags(service: Service, call: Call) -> Reply:
    """List the models that can be asked."""
    return json_reply({"models": [await _listed(pair) for pair in _pairs(service)]})


async def ps(service: Service, call: Call) -> Reply:
    """List the models that are loaded."""
    loaded = [(pair, pair.link.loaded) for pair in _pairs(service)]
    return json_reply(
        {
            "models": [
                await _listed(pair)
                | {
                    "expires_at": _expires(pair),
                    "size_vram": pair.fit.needed_bytes if pair.fit else 0,
                    "context_length": content.context_length,
                }
                for pair, content in loaded
                if content is not None
            ]
        }
    )


async def show(service: Service, call: Call) -> Reply:
    """Describe a model."""
    body = read_body(ShowBody, call.body)
    if not body.model:
        raise invalid("model: Field required.", "model", "missing_required_parameter")
    service = service.asked_for(body.model)
    pair = service.pair
    loaded = pair.link.loaded
    texts = await service.texts() if loaded else TargetTexts()
    listed = await _listed(pair)
    abilities = {
        "tools": True,  # said in text where the template does not know them
        "thinking": texts.syntax.reasons,
        "insert": gap_of("", "", texts.marks) is not None,
        "vision": pair.link.loaded is not None and pair.link.loaded.sees,
    }
    return json_reply(
        {
            "modelfile": "",
            "parameters": f"num_ctx {loaded.context_length}" if loaded else "",  # clients read it
            "template": texts.template,
            "details": listed["details"],
            "model_info": await asyncio.to_thread(_model_info, pair),
            "capabilities": ["completion", *(name for name, able in abilities.items() if able)],
            "modified_at": listed["modified_at"],
        }
    )


async def version(service: Service, call: Call) -> Reply:
    """Say which version of Ollama's API this is."""
    return json_reply({"version": VERSION})


def _pairs(service: Service) -> list[Pair]:
    return [pair for pair in service.pool.pairs if pair.name]


async def _listed(pair: Pair) -> Json:
    described = await asyncio.to_thread(_described, pair.target)
    return {"name": pair.name, "model": pair.name, **described}


def _expires(pair: Pair) -> str:
    left = pair.expires - asyncio.get_running_loop().time()
    if left > _LONGEST_SECONDS:
        return _NEVER
    return _time(datetime.now(UTC) + timedelta(seconds=max(0.0, left)))


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


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
        "modified_at": _time(datetime.fromtimestamp(changed, UTC)),
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


def _model_info(pair: Pair) -> Json:
    family = _described(pair.target)["details"]["family"] or "unknown"
    config: Mapping[str, Any] = _read(lambda: ModelFolder(Path(pair.target)).config, {})
    counted, loaded = count_parameters(config), pair.link.loaded
    context = loaded.context_length if loaded else context_of(pair.target) or 0
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
