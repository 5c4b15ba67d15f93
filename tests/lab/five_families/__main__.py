"""Shows what the product makes of replies of five families, with their own chat templates.

`python -m tests.lab.five_families TEMPLATES TOKENIZERS PICTURES`: the folder of llama.cpp's
templates; a folder with tokenizer.json files in folders of their names, perhaps empty; and a folder
for the pictures. Nothing is fetched. Networks that know their replies answer in the product's own
process: through the window, in the terminal, by both APIs of the server. Prints a line for each
answer, and one for every difference from what the network wrote.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.start import make_application
from tests.lab.five_families.faces import (
    Asked,
    InWindow,
    Prompts,
    by_anthropic,
    by_openai,
    in_terminal,
    serving,
)
from tests.lab.five_families.families import (
    ANSWERS,
    CITY,
    FAMILIES,
    QUESTIONS,
    RESULT,
    THOUGHTS,
    TOOL,
    Family,
    write_folder,
)
from tests.lab.five_families.lossless import compare


def main(templates: Path, tokenizers: Path, pictures: Path) -> None:
    """Try all families."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    pictures.mkdir(parents=True, exist_ok=True)
    application = make_application(["five families"])
    with tempfile.TemporaryDirectory() as own:
        os.environ["SLIPSTREAM_HOME"] = str(Path(own) / "home")
        for family in FAMILIES:
            home = Path(own) / family.name
            target = home / "model"
            tokenizer = write_folder(family, target, templates=templates, tokenizers=tokenizers)
            _try_window(application, family, home, tokenizer, pictures)
            _say_all(family, "terminal", in_terminal(target, home / "chat.json", QUESTIONS[:2]))
            with serving(target) as post:
                _say_calls(family, "OpenAI", by_openai(post, RESULT))
                _say_calls(family, "Anthropic", by_anthropic(post, RESULT))
            print(f"{family.name}: {compare(family, tokenizer)}", flush=True)


def _try_window(
    application: Any, family: Family, home: Path, tokenizer: Any, pictures: Path
) -> None:
    prompts = Prompts(home / "prompts")
    window = InWindow(application, home / "window", home / "model", prompts)
    asked = [window.ask(question) for question in QUESTIONS[:2]]
    _say_all(family, "window", asked)
    second = str(tokenizer.decode(prompts.of_length(asked[1].total)))
    print(f"{family.name}: second prompt: {second[-280:]!r}")
    window.save(pictures / f"{family.name}.png")
    reply = family.replies[0]
    text = reply.index(ANSWERS[0])
    cuts = {"reasoning": reply[: text // 2], "answer": reply[: text + 12]}
    for name, begun in cuts.items():
        window.new()
        cut = window.ask(
            QUESTIONS[0], most_tokens=len(tokenizer.encode(begun, add_special_tokens=False))
        )
        written = tokenizer.encode(window.written(), add_special_tokens=False)
        window.save(pictures / f"{family.name}-cut-in-{name}.png")
        whole = window.go_on()
        prompt, longer = prompts.of_length(cut.total), prompts.of_length(whole.total)
        same = longer == [*prompt, *written]
        print(
            f"{family.name}: cut in the {name}: {cut.total} + {len(written)} tokens, continued "
            f"from {whole.total}, {whole.reused} reused: {'the same' if same else 'OTHER TOKENS'}"
        )
        _check(family, f"continued in the {name}", whole, THOUGHTS[0], ANSWERS[0])
    window.close()


def _say_all(family: Family, face: str, asked: Sequence[Asked]) -> None:
    for number, one in enumerate(asked):
        _check(family, f"{face}, turn {number + 1}", one, THOUGHTS[number], ANSWERS[number])


def _say_calls(family: Family, face: str, asked: Sequence[Asked]) -> None:
    call, end = asked
    _check(family, f"{face}, call", call, THOUGHTS[2], "")
    if call.calls != ((TOOL["name"], {"city": CITY}),):
        print(f"{family.name}: {face}: CALLS {call.calls}")
    _check(family, f"{face}, result", end, "" if family.silent else THOUGHTS[3], ANSWERS[3])


def _check(family: Family, name: str, one: Asked, reasoning: str, content: str) -> None:
    right = (one.reasoning.strip(), one.content.strip()) == (reasoning, content)
    wrong = "" if right else f" DIFFERS: {one.reasoning!r}, {one.content!r}"
    new = one.total - one.reused
    print(f"{family.name}: {name}: {one.total} tokens, {new} read{wrong}", flush=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
