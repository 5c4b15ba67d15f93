"""Made-up answers of the commands on models, of every kind that there is."""

import time
from dataclasses import replace
from pathlib import Path

from models.answers import ANSWERS
from models.records import Installed, Inventory, PairOffer

DATA = Path(__file__).parents[2] / "data"

GB = 1_000_000_000
AVAILABLE = 12 * GB
DAY = 86_400
TARGET = "mlx-community/Qwen3-4B-4bit"
DRAFTER = "mlx-community/Qwen3-0.6B-4bit"


def installed(name, **more):
    values = {
        "path": f"/models/{name}",
        "origin": "hub",
        "role": "chat",
        "size_bytes": GB,
        "last_used": time.time() - 3 * DAY,
        "model_type": "qwen3",
        "quantization_bits": 4,
        "context_length": 32_768,
        "removable": True,
    }
    return Installed(name, **{**values, **more})


def offer(target, drafter="", **more):
    values = {
        "family": "Qwen3",
        "good_for": "chat, code and reasoning",
        "licence": "Apache-2.0",
        "context": 40_960,
        "memory_class_gb": 16,
        "drafter_kinds": ("model", "lookup"),
        "download_bytes": 2_620_000_000,
        "needed_bytes": 4_310_000_000,
        "available_bytes": AVAILABLE,
        "installed": False,
        "recommended": False,
        "verified": True,
    }
    return PairOffer(target, drafter, **{**values, **more})


def _answers():
    """The lines of `tests/data/library.jsonl`. When a model was last used is kept as the seconds
    since then, below 0."""
    lines = (DATA / "library.jsonl").read_bytes().splitlines()
    inventory, found, offered, rated = map(ANSWERS.read, lines)
    installed = (
        replace(each, last_used=each.last_used and time.time() + each.last_used)
        for each in inventory.installed
    )
    return replace(inventory, installed=tuple(installed)), found, offered, rated


INVENTORY_ANSWER, _FOUND, _OFFERED, _RATED = _answers()
INSTALLED, DOWNLOADS = INVENTORY_ANSWER.installed, INVENTORY_ANSWER.downloads
INCOMPLETE = INVENTORY_ANSWER.incomplete
FOUND, OFFERS, CANDIDATES = _FOUND.found, _OFFERED.offers, _RATED.candidates


def inventory_answer(**records):
    """An answer of `list`."""
    running = any(one.status == "running" for one in records.get("downloads", ()))
    return Inventory(**{"free_bytes": 100 * GB, "downloading": running} | records)
