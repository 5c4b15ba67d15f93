"""Counts the rows that each step of an answer with tools reads, with real chat templates.

`python -m tests.lab.tools.prefixes FOLDER`: a folder of .jinja files, which are never kept. An
answer calls a tool twice and then asks the person; each prompt ought to begin with the tokens of
the one before and of all that was written behind it. Prints a table: a dot where new rows only are
read, or how many of the tokens (bytes here) are read again; and how many templates have the dot.
"""

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from engine.conversation.template import reply_syntax
from models.errors import Problem
from tests.support.engine.tool_steps import read_in_steps, tokenizer_of

NAMES = ("step 2", "step 3", "next question")
MARK = re.compile(r"<[|｜][^<>'\"\s{}]*>|<[^<>'\"\s{}]*[|｜]>")
ENDS = {  # the tokens that end an answer, by a word of the template
    "<|turn>": ("<turn|>", "<|tool_response>"),
    "[gMASK]": ("<|observation|>", "<|user|>"),
    "<|call|>": ("<|call|>", "<|return|>"),
    "<|im_end|>": ("<|im_end|>",),
    "<|eot_id|>": ("<|eot_id|>", "<|eom_id|>"),
    "<end_of_turn>": ("<end_of_turn>", "<start_function_response>"),
    "<|END_OF_TURN_TOKEN|>": ("<|END_OF_TURN_TOKEN|>",),
    "<｜end▁of▁sentence｜>": ("<｜end▁of▁sentence｜>",),
    "<|end_of_text|>": ("<|end_of_text|>",),
    "<|end|>": ("<|end|>",),
    "[e~[": ("[e~[",),
    "<|end_of_msg|>": ("<|end_of_msg|>",),
    "<end_of_sentence>": ("<end_of_sentence>",),
    "<SPECIAL_12>": ("<SPECIAL_12>",),
    "<|assistant_end|>": ("<|assistant_end|>",),
    "</assistant>": ("</assistant>",),
    "<sep>": ("<sep>",),
    "<seed:eos>": ("<seed:eos>",),
}


def main(folder: Path) -> None:
    """Print the table of all templates in the folder."""
    columns = [f"{name}{more}" for more in ("", ", thinking") for name in NAMES]
    print(f"| template | {' | '.join(columns)} |")
    print("|---" * (len(columns) + 1) + "|")
    counts: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as own:
        for path in sorted(folder.glob("*.jinja"), key=lambda path: path.stem.lower()):
            template = path.read_text(encoding="utf-8")
            ends = next((names for word, names in ENDS.items() if word in template), ())
            special = MARK.findall(template)
            tokenizer = tokenizer_of(template, Path(own) / path.stem, ends=ends, special=special)
            cells: list[str] = []
            for thinks in (False, True)[: 1 + reply_syntax(tokenizer).reasons]:
                try:
                    reads = [read for _, read in read_in_steps(tokenizer, thinks=thinks)]
                except Problem as problem:
                    print(f"{path.stem}: {problem.message}", file=sys.stderr)
                    break
                for read in reads:
                    again = read.before - read.kept
                    tried[columns[len(cells)]] += 1
                    counts[columns[len(cells)]] += not again
                    cells.append(str(again or "·"))
            print(f"| {path.stem} | {' | '.join(cells + [''] * (len(columns) - len(cells)))} |")
    totals = " | ".join(f"{counts[name]} of {tried[name]}" for name in columns)
    print(f"| in all | {totals} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
