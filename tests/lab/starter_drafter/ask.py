"""What the target is asked, for the starter's drafter to learn from: public, composed, its own.

    python ask.py PROMPTS asked.jsonl.gz --most 300000

PROMPTS is a folder with the public files named below; what prompts are composed of, and how users
begin, stands in words.json. Writes a JSON line per conversation: a `prompt`, or the `begin` of one
that the target is to think of itself under a `system` prompt (Magpie, arXiv 2406.08464); how many
`answers`, at which `temperature`, with which `penalty` for repetition, the `longest`.
"""

import argparse
import csv
import gzip
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

_SUMMARY = re.compile(r"\bsummar|tl;?dr|highlights", re.IGNORECASE)
SHARES = 0.55, 0.2  # thought of by the target, put together here; the others are public


def ask(
    folder: Path,
    out: Path,
    most: int,
    shares: Sequence[float] = SHARES,
    longest: int = 6000,
    sources: Mapping[str, int] | None = None,
    seed: int = 2,
) -> None:
    """Write `most` conversations in random order, of public prompts up to `longest` characters.

    `sources`: of which public sources, and how many prompts of each at most; None is all of all.
    Ends with ValueError where there is no such source.
    """
    chance, (own, composed) = random.Random(seed), shares
    words = json.loads((Path(__file__).parent / "words.json").read_text())
    public = [
        (source, text)
        for source, texts in _public(folder, chance)
        for text in texts
        if len(text) <= longest
    ]
    if sources is not None:
        if unknown := sorted(sources.keys() - {name for name, _ in public}):
            raise ValueError(f"No public prompts are from {', '.join(unknown)}.")
        chance.shuffle(public)
        public = [
            pair
            for name, limit in sources.items()
            for pair in islice((one for one in public if one[0] == name), limit)
        ]
    with gzip.open(out, "wt") as file:
        for _ in range(most):
            draw = chance.random()
            if draw < own:
                line = _imagined(words, chance)
            elif draw < own + composed:
                line = {"source": "composed", "prompt": _composed(words, chance)}
            else:
                source, text = chance.choice(public)
                line = {"source": source, "prompt": text}
            line["temperature"] = chance.choices([0.0, 0.7, 0.8, 1.0], [0.5, 0.12, 0.23, 0.15])[0]
            line["penalty"] = chance.choices([1.0, 1.1], [0.65, 0.35])[0]
            line["answers"] = chance.choices([1, 2, 3, 4], [0.76, 0.15, 0.06, 0.03])[0]
            line["longest"] = chance.choices([200, 320, 640], [0.55, 0.35, 0.1])[0]
            file.write(json.dumps(line) + "\n")


def _imagined(words: dict[str, list[str]], chance: random.Random) -> dict[str, Any]:
    persona = chance.choice(words["personas"]) if chance.random() < 0.35 else None
    begin = chance.choice(words["beginnings"]) if chance.random() < 0.6 else ""
    return {"source": "magpie", "begin": begin, "system": persona}


def _composed(words: dict[str, list[str]], chance: random.Random) -> str:
    text = chance.choice(words["forms"])
    while "{}" in text:
        text = text.replace("{}", chance.choice(words["topics"]), 1)
    return f"{text} {chance.choice(words['constraints'])}" if chance.random() < 0.3 else text


def _public(folder: Path, chance: random.Random) -> Iterator[tuple[str, list[str]]]:
    """(source, prompts) from the public files, as they are; as many as of each are wanted."""

    def rows(name: str) -> list[dict[str, Any]]:
        path = folder / name
        with gzip.open(path, "rt") if name.endswith(".gz") else path.open() as file:
            return [json.loads(line) for line in file]

    def some(texts: list[str], most: int) -> list[str]:
        usable = [text for text in texts if 8 < len(text) < 6000]
        return chance.sample(usable, min(most, len(usable)))

    yield "gsm8k", some([row["question"] for row in rows("gsm8k_train.jsonl")], 7500)
    tasks = [row for row in rows("mbpp.jsonl") if row["task_id"] >= 601]
    yield "mbpp", [f"{row['text']}\n{row['test_list'][0]}" for row in tasks] * 3
    yield "mbpp", [row["text"] for row in tasks] * 3
    for lead in (
        "Complete this function:\n",
        "Complete this function:\n",
        "Implement:\n",
        "",
        "Fix:\n",
    ):
        stubs = [stub for row in tasks if (stub := _stub(row, chance))]
        yield "mbpp", [lead + stub for stub in stubs]
    code = [row["code"].replace("\r", "") for row in tasks]
    for lead in (
        "Explain this code:\n",
        "Find the bug:\n",
        "Rewrite it in JavaScript:\n",
        "Add tests:\n",
    ):
        yield "mbpp", [lead + text for text in code]
    yield "nl2bash", some((folder / "nl2bash_all.nl").read_text().splitlines(), 1500)
    seeds = [
        "\n".join(filter(None, [row["instruction"], row["instances"][0]["input"]]))
        for row in rows("self_instruct_seed_tasks.jsonl")
    ]
    yield "self-instruct", seeds * 20
    instructions = json.loads((folder / "rasbt_instruction_data.json").read_text())
    yield (
        "instructions",
        ["\n".join(filter(None, [r["instruction"], r["input"]])) for r in instructions] * 3,
    )
    yield "oasst", [row["text"] for row in rows("oasst_en_100_message.jsonl")] * 20
    for name, most in (("nq_open_dev_minus_specbench", 3500), ("nq_efficientqa_test", 1700)):
        yield "natural-questions", some([row["question"] for row in rows(f"{name}.jsonl")], most)
    p3 = [row["prompt"] for row in rows("t0_train_50k.jsonl.gz")]
    yield "p3", some(p3, 12000)
    yield "summaries", [text for text in p3 if len(text) > 600 and _SUMMARY.search(text)]
    csv.field_size_limit(10**8)
    with (folder / "awesome_chatgpt_prompts.csv").open() as file:
        yield "awesome-prompts", some([row["prompt"] for row in csv.DictReader(file)], 1500) * 2
    clinc = json.loads((folder / "clinc150_data_full.json").read_text())["train"]
    yield "clinc150", some([text for text, _ in clinc], 1500)


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


def _source(text: str) -> tuple[str, int]:
    name, _, most = text.partition("=")
    return name, int(most)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prompts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--most", type=int, default=300_000)
    parser.add_argument("--shares", type=float, nargs=2, default=SHARES, help="own, composed")
    parser.add_argument("--longest", type=int, default=6000, help="public prompt, in characters")
    parser.add_argument(
        "--sources", nargs="+", type=_source, metavar="NAME=MOST", help="public ones, not all"
    )
    parser.add_argument("--seed", type=int, default=2)
    given = parser.parse_args()
    sources = dict(given.sources) if given.sources else None
    try:
        ask(given.prompts, given.out, given.most, given.shares, given.longest, sources, given.seed)
    except ValueError as error:
        parser.error(str(error))
