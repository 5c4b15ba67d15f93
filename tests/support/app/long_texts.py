"""Long answers: Markdown of every kind, the same for the same length, on every machine."""

import random
from itertools import count

_WORDS = (
    "the small model writes ahead and large one reads what it wrote then keeps every word that "
    "stands because a guess costs little while reading many words at once costs hardly more than "
    "reading one of them so nothing is lost when they are wrong and much is won otherwise"
)


def made_text(characters: int) -> str:
    """Prose, lists, tables, quotes and code, in sections; at least so many characters."""
    chance = random.Random(1)
    sections: list[str] = []
    length = 0
    for number in count(1):
        if length >= characters:
            break
        section = _section(chance, number)
        sections.append(section)
        length += len(section)
    return "".join(sections)


def _section(chance: random.Random, number: int) -> str:
    """About a thousand characters."""
    rows = "".join(f"| {n} | {_phrase(chance, 2)} | {n * number} |\n" for n in range(1, 5))
    return (
        f"## {number}. {_phrase(chance, 4).capitalize()}\n\n"
        f"{_sentences(chance, 3)}\n\n"
        f"- **{_phrase(chance, 2)}**: {_phrase(chance, 7)}\n"
        f"- `{_phrase(chance, 1)}_{number}`, {_phrase(chance, 6)}\n"
        f"  1. *{_phrase(chance, 5)}*\n"
        f"  2. {_phrase(chance, 5)}\n\n"
        f"| n | {_phrase(chance, 1)} | {_phrase(chance, 1)} |\n|---|:---|---:|\n{rows}\n"
        f"```python\ndef step_{number}(words: list[str], limit: int = {number}) -> int:\n"
        f'    """{_phrase(chance, 6).capitalize()}."""\n'
        f"    found = [word for word in words if len(word) > limit]\n"
        f"    return len(found) + {number}  # {_phrase(chance, 3)}\n```\n\n"
        f"> {_phrase(chance, 9).capitalize()}.\n\n"
        f"{_sentences(chance, 2)}\n\n"
    )


def _sentences(chance: random.Random, number: int) -> str:
    return " ".join(
        f"{_phrase(chance, chance.randint(8, 16)).capitalize()}." for _ in range(number)
    )


def _phrase(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(_WORDS.split()) for _ in range(words))
