"""What the target was asked for the drafter in this folder: public prompts, and its own.

    python ask.py PROMPTS asked.jsonl TARGET

PROMPTS is a folder with the public files named below, TARGET the starter model's. Writes a JSON
line per prompt: its tokens and a temperature. Those that the target is to think of itself have
the beginning of a chat instead; `make.py` lets it write them. Needs tokenizers.
"""

import csv
import gzip
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def ask(folder: Path, out: Path, target: Path) -> None:
    """Write one JSON line per prompt: its tokens and temperature, some still to be sampled."""
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    chance = random.Random(1)
    asked: list[dict[str, Any]] = []

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def opened(system: str) -> str:
        return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"

    closed = "<|im_end|>\n<|im_start|>assistant\n"
    for source, texts, most in _texts(folder, chance):
        usable = [text for text in texts if 8 < len(text) < 1400]
        chance.shuffle(usable)
        for text in usable[:most]:
            asked.append({"source": source, "tokens": encode(opened(SYSTEM) + text + closed)})
    # Magpie (arXiv 2406.08464): the target thinks of what a user would ask, and is asked that.
    for system, most in _PERSONAS:
        begun = {"begin": encode(opened(system or SYSTEM)), "plain": encode(opened(SYSTEM))}
        asked += [{"source": "magpie", **begun, "close": encode(closed)} for _ in range(most)]
    chance.shuffle(asked)
    with out.open("w") as file:
        for one in asked:
            if len(one.get("tokens", ())) <= 220:
                one["temperature"] = chance.choices([0.0, 0.7, 1.0], [0.45, 0.25, 0.3])[0]
                file.write(json.dumps(one) + "\n")


_PERSONAS = (
    ("", 2600),
    (
        "You are an AI assistant designed to help with Python programming. "
        "The user asks for functions, explanations and fixes of code.",
        700,
    ),
    ("You are an AI assistant that helps with writing, roleplay and creative tasks.", 500),
    (
        "You are an AI assistant that solves mathematical word problems "
        "and reasoning puzzles step by step.",
        400,
    ),
)


def _texts(folder: Path, chance: random.Random) -> Iterator[tuple[str, list[str], int]]:
    """(source, prompts, how many of them) from the public files, as they are."""

    def rows(name: str) -> list[dict[str, Any]]:
        path = folder / name
        with gzip.open(path, "rt") if name.endswith(".gz") else path.open() as file:
            return [json.loads(line) for line in file]

    yield "gsm8k", [row["question"] for row in rows("gsm8k_train.jsonl")], 5000
    tasks = [row for row in rows("mbpp.jsonl") if row["task_id"] >= 601]
    yield "mbpp", [f"{row['text']}\n{row['test_list'][0]}" for row in tasks], 400
    yield "mbpp", [row["text"] for row in tasks], 400
    for lead in ("Complete this function:\n", "Complete this function:\n", "Implement:\n"):
        stubs = [stub for row in tasks if (stub := _stub(row, chance))]
        yield "stub", [lead + stub for stub in stubs], 400
    yield "nl2bash", (folder / "nl2bash_all.nl").read_text().splitlines(), 400
    seeds = [
        "\n".join(filter(None, [row["instruction"], row["instances"][0]["input"]]))
        for row in rows("self_instruct_seed_tasks.jsonl")
    ]
    yield "self-instruct", seeds * 3, 525
    instructions = json.loads((folder / "rasbt_instruction_data.json").read_text())
    texts = ["\n".join(filter(None, [r["instruction"], r["input"]])) for r in instructions]
    yield "instructions", texts, 1100
    yield "oasst", [row["text"] for row in rows("oasst_en_100_message.jsonl")] * 3, 300
    for name, most in (("nq_open_dev_minus_specbench", 1300), ("nq_efficientqa_test", 500)):
        yield "natural-questions", [row["question"] for row in rows(f"{name}.jsonl")], most
    yield "p3", [row["prompt"] for row in rows("t0_train_50k.jsonl.gz")], 2300
    csv.field_size_limit(10**8)
    with (folder / "awesome_chatgpt_prompts.csv").open() as file:
        yield "awesome-prompts", [row["prompt"] for row in csv.DictReader(file)], 700
    clinc = json.loads((folder / "clinc150_data_full.json").read_text())["train"]
    yield "clinc150", [text for text, _ in clinc], 300


def _stub(row: dict[str, Any], chance: random.Random) -> str:
    """An MBPP task as a function that is to be completed."""
    found = re.search(r"def (\w+)\s*\(([^)]*)\)", row["code"])
    if not found:
        return ""
    text = re.sub(r"^Write a (python )?function to ", "", row["text"].strip()).capitalize()
    examples = []
    for test in row["test_list"][: chance.choice([1, 2, 2, 3])]:
        parts = re.match(r"assert\s+(.*?)\s*==\s*(.*)$", test, re.S)
        if parts:
            examples.append(f"    >>> {parts[1]}\n    {parts[2]}\n")
    quotes, imports = chance.choice(['"""', "'''"]), chance.choice(["", "import math\n\n\n"])
    head = f"{imports}def {found[1]}({found[2]}):\n    {quotes} {text}\n"
    return f"{head}{''.join(examples)}    {quotes}\n"


if __name__ == "__main__":
    ask(*map(Path, sys.argv[1:]))
