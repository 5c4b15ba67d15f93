"""GET /v1/models: the models that clients may ask for, in the forms of OpenAI and of Anthropic."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.responses import Response

from engine.server.exchange import Call, json_reply
from engine.server.pool import Pair
from engine.server.service import Service
from models.errors import Problem
from models.model_folder import ModelFolder

_CREATED = 1_700_000_000  # not known of a model, but clients want a number


async def models(service: Service, call: Call) -> Response:
    """List the models that clients may ask for."""
    pairs = [pair for pair in service.pool.pairs if pair.name]
    listed = [pair.name for pair in pairs]
    if _anthropic(call):
        return json_reply(
            {
                "data": [_for_anthropic(name) for name in listed],
                "has_more": False,
                "first_id": listed[0] if listed else None,
                "last_id": listed[-1] if listed else None,
            }
        )
    shown = [await asyncio.to_thread(_for_openai, pair) for pair in pairs]
    return json_reply({"object": "list", "data": shown, "models": shown})  # Codex reads the latter


async def model(service: Service, call: Call) -> Response:
    """Return the model that answers to a name."""
    asked = service.asked_for(call.path.removeprefix("/models/"))
    if _anthropic(call):
        return json_reply(_for_anthropic(asked.model))
    return json_reply(await asyncio.to_thread(_for_openai, asked.pair))


def _for_openai(pair: Pair) -> dict[str, Any]:
    loaded = pair.link.loaded
    context = loaded.context_length if loaded else context_of(pair.target)
    sees = loaded is not None and loaded.sees
    return {
        "id": pair.name,
        "object": "model",
        "created": _CREATED,
        "owned_by": "slipstream",
        "max_model_len": context,
        "context_length": context,
        "capabilities": ["completion", *(["vision"] if sees else [])],
        # as LM Studio has it
        "state": pair.state.replace(" ", "-"),
        "type": "vlm" if sees else "llm",
        "max_context_length": context,
        "meta": {"n_ctx_train": context},  # as llama.cpp has it
    }


def _for_anthropic(name: str) -> dict[str, Any]:
    created = datetime.fromtimestamp(_CREATED, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "model", "id": name, "display_name": name, "created_at": created}


def _anthropic(call: Call) -> bool:
    return "anthropic-version" in call.headers


def context_of(target: str) -> int | None:
    """Return the longest context of a model in a folder, in tokens; None if it is not known."""
    try:
        return ModelFolder(Path(target)).context_length
    except Problem:
        return None
