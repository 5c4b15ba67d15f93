"""Made-up answers of the commands on models, of every kind that there is."""

import time
from typing import Any

from models.records import (
    Candidate,
    Download,
    Incomplete,
    Installed,
    Inventory,
    PairOffer,
    SearchResult,
)

GB = 1_000_000_000
AVAILABLE = 12 * GB
DAY = 86_400
TARGET = "mlx-community/Qwen3-4B-4bit"
DRAFTER = "mlx-community/Qwen3-0.6B-4bit"


def installed(name: str, **more: Any) -> Installed:
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


def offer(target: str, drafter: str = "", **more: Any) -> PairOffer:
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


INSTALLED = (
    installed(
        "smollm2-135m-instruct",
        origin="starter",
        size_bytes=144_000_000,
        model_type="llama",
        quantization_bits=8,
        context_length=8192,
        last_used=time.time() - 4.5 * 3600,  # 4 hours ago for half an hour
    ),
    installed("mlx-community/Llama-3.2-3B-Instruct-4bit", size_bytes=1_810_000_000),
    installed(
        "mlx-community/Qwen3-0.6B-4bit",
        size_bytes=351_000_000,
        last_used=time.time() - 40 * DAY,
    ),
    installed(
        "mlx-community/EAGLE3-LLaMA3.1-Instruct-8B",
        role="drafter",
        size_bytes=820_000_000,
        last_used=None,
        context_length=None,
        quantization_bits=None,
    ),
    installed(
        "a-model-of-mine",
        origin="folder",
        removable=False,
        size_bytes=7_900_000_000,
        quantization_bits=None,
        problem="It has no tokenizer.",
        remedy="Put the tokenizer.json of its family into the folder.",
    ),
)
INCOMPLETE = (Incomplete("mlx-community/gemma-3-4b-it-4bit", "/cache/x", 611_000_000),)
DOWNLOADS = (
    Download(TARGET, "a" * 40, "running", 1_240_000_000, 2_280_000_000, 31_400_000.0, 33.0),
    Download(DRAFTER, "b" * 40, "queued", 0, 351_000_000),
    Download("mlx-community/gpt-oss-20b-MXFP4-Q8", "c" * 40, "paused", 4 * GB, 12_100_000_000),
    Download(
        "someone/a-model-with-quite-a-long-name-that-goes-on-and-on-and-never-seems-to-end-4bit",
        "d" * 40,
        "failed",
        900_000_000,
        2 * GB,
        problem="model.safetensors is damaged on the hub.",
        remedy="Tell its owner, and choose another model meanwhile.",
    ),
)
OFFERS = (
    offer(TARGET, DRAFTER, recommended=True),
    offer(
        "mlx-community/gemma-3-4b-it-4bit",
        "mlx-community/gemma-3-270m-it-4bit",
        family="Gemma 3",
        good_for="chat in many languages",
        licence="Gemma",
        download_bytes=3_020_000_000,
        needed_bytes=4_900_000_000,
        verified=False,
    ),
    offer(
        "mlx-community/SmolLM3-3B-4bit",
        family="SmolLM",
        good_for="chat and reasoning in six languages",
        memory_class_gb=8,
        drafter_kinds=("lookup",),
        download_bytes=1_750_000_000,
        needed_bytes=2_700_000_000,
    ),
    offer(
        "mlx-community/gpt-oss-20b-MXFP4-Q8",
        family="gpt-oss",
        good_for="reasoning and tools, quick for its size",
        memory_class_gb=24,
        download_bytes=12_100_000_000,
        needed_bytes=14_600_000_000,
        reason="It needs 14.6 GB at 4,096 tokens (weights 12.1, cache 0.23, working memory 0.15), "
        "and 12.0 GB are available.",
    ),
    offer(
        "mlx-community/Llama-3.3-70B-Instruct-4bit",
        "mlx-community/Llama-3.2-1B-Instruct-4bit",
        family="Llama 3",
        good_for="writing and knowledge",
        licence="Llama 3.3",
        memory_class_gb=64,
        download_bytes=40_500_000_000,
        needed_bytes=44_100_000_000,
        reason="It needs 42.1 GB at 4,096 tokens (weights 39.7, cache 1.4, drafter 0.84, working "
        "memory 0.18), and 12.0 GB are available.",
    ),
)
FOUND = (
    SearchResult(TARGET, 182_400, 311, "2025-06-02T11:20:00Z", False, "apache-2.0", 2_280_000_000),
    SearchResult(DRAFTER, 51_000, 40, "2025-06-02T11:20:00Z", False, "apache-2.0", 351_000_000),
    SearchResult(
        "mlx-community/Qwen3-235B-A22B-4bit",
        9_120,
        51,
        "2025-05-01T08:00:00Z",
        False,
        "apache-2.0",
        132_000_000_000,
        "Needs 139 GB of memory; models can use 12.0 GB here.",
    ),
    SearchResult(
        "Qwen/Qwen3-4B-GGUF",
        410_000,
        120,
        "2025-05-09T08:00:00Z",
        False,
        "apache-2.0",
        2_500_000_000,
        "It has GGUF files alone. Download one, and open it with “Load a model folder”.",
    ),
    SearchResult(
        "meta-llama/Llama-3.2-3B-Instruct",
        2_310_000,
        1900,
        "2024-10-24T08:00:00Z",
        True,
        "llama3.2",
        6_400_000_000,
        "Its owner asks for consent: agree on its page, then sign in with: hf auth login",
    ),
    SearchResult(
        "someone/Qwen3-4B-uncensored-and-merged-with-quite-a-few-others-GPTQ-Int4-128g",
        812,
        3,
        "2025-07-11T08:00:00Z",
        False,
        "",
        None,
        "It has no safetensors weights: pickle files can run code, so they are not loaded.",
    ),
)
CANDIDATES = (
    Candidate(
        DRAFTER,
        "model",
        True,
        "It has the target's tokens; a drafted token costs 16.0% of a pass of the target.",
        0.16,
        True,
        351_000_000,
    ),
    Candidate(
        "lookup",
        "lookup",
        True,
        "Copies what followed the same words before: needs no model, and costs next to nothing.",
        0.0,
    ),
    Candidate(
        "early-exit",
        "early-exit",
        True,
        "It is the first 18 of the target's layers; a drafted token costs 50.0% of a pass of the "
        "target, so it rarely pays.",
        0.5,
    ),
    Candidate("none", "none", True, "Plain decoding, to compare with."),
    Candidate(
        "mlx-community/Qwen3-1.7B-4bit",
        "model",
        False,
        "It is not downloaded, 1.0 GB: slipstream models pull mlx-community/Qwen3-1.7B-4bit",
        0.43,
        False,
        984_000_000,
        "not installed",
    ),
    Candidate(
        "mlx-community/Llama-3.2-3B-Instruct-4bit",
        "model",
        False,
        "It has other tokens: number 3 is \u201c$\u201d for the target and \u201c#\u201d for "
        "this model.",
        0.8,
        True,
        1_810_000_000,
        "other tokens",
    ),
    Candidate(
        "head",
        "head",
        False,
        "No head was trained for these weights yet: slipstream distil makes one.",
        installed=False,
        obstacle="not trained",
    ),
)


def inventory_answer(**records: Any) -> Inventory:
    """An answer of `list`."""
    running = any(one.status == "running" for one in records.get("downloads", ()))
    return Inventory(**{"free_bytes": 100 * GB, "downloading": running} | records)


INVENTORY_ANSWER = Inventory(
    *(INSTALLED, INCOMPLETE, DOWNLOADS, ("/Volumes/Models and more/mlx",), 102 * GB),
    downloading=True,
)
