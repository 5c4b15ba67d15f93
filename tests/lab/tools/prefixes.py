"""Counts the rows that each step of an answer with tools reads, with real chat templates.

`python -m tests.lab.tools.prefixes FOLDER`: a folder of .jinja files, which are never kept. An
answer calls a tool twice and then asks the person; each prompt must begin with the tokens of the
one before and of all that was written behind it. Prints a line for each template that lacks that:
with or without reasoning, and behind the next question, where most drop the reasoning.
"""

import re
import sys
import tempfile
from pathlib import Path

from engine.conversation.template import reply_syntax
from models.errors import Problem
from tests.support.engine.tool_steps import read_in_steps, tokenizer_of

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
    """Print how many templates keep their tokens, below a line for each that does not."""
    counts: dict[str, list[bool]] = {}
    with tempfile.TemporaryDirectory() as own:
        for path in sorted(folder.glob("*.jinja")):
            template = path.read_text(encoding="utf-8")
            ends = next((names for word, names in ENDS.items() if word in template), ())
            special = MARK.findall(template)
            tokenizer = tokenizer_of(template, Path(own) / path.stem, ends=ends, special=special)
            for thinks in (False, True):
                if thinks and not reply_syntax(tokenizer).reasons:
                    continue
                try:
                    reads = list(read_in_steps(tokenizer, thinks=thinks))
                except Problem as problem:
                    print(f"{path.stem}: {problem.message}")
                    continue
                for name, read in reads:
                    holds = read.kept == read.before
                    counts.setdefault(f"{name}{', thinking' * thinks}", []).append(holds)
                    if not holds:
                        again = read.before - read.kept
                        print(f"{path.stem}{', thinking' * thinks}: {name}: reads {again} again")
    for name, holds in counts.items():
        print(f"{name:40} {sum(holds):3} of {len(holds)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
