"""Three documents, and thirty answers about them in which a reader marked the copied words.

What stands word for word in a document is between ⟦ and ⟧, from six words on, or four with a number
or a name in them; two characters are a word where there are no spaces. The marks were made by
reading, before there was a finder.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from engine.documents import Document, Section

_FOLDER = Path(__file__).parents[2] / "data/copied"


@dataclass(frozen=True, slots=True)
class MarkedAnswer:
    """An answer with its marks; `kind` says what is hard about it."""

    kind: str
    marked: str

    @property
    def text(self):
        return self.marked.replace("⟦", "").replace("⟧", "")

    @property
    def spans(self):
        """From where to where in the text it is marked."""
        bare = [
            match.start() - number for number, match in enumerate(re.finditer("[⟦⟧]", self.marked))
        ]
        return list(zip(bare[::2], bare[1::2], strict=True))


def _parts(name):
    """The head of each part of a file, and its text."""
    text = (_FOLDER / name).read_text("utf-8").replace("&shy;", "\u00ad")
    parts = re.split(r"^=== (.*)\n", text, flags=re.MULTILINE)[1:]
    return [
        (head, body.removesuffix("\n")) for head, body in zip(parts[::2], parts[1::2], strict=True)
    ]


def _document(name):
    sections = []
    for head, text in _parts(f"{name}.txt"):
        kind, number, *label = head.split(maxsplit=2)
        assert kind in ("page", "part")
        sections.append(Section(kind, int(number), text, *label))
    kind_of_file = {"contract.pdf": "pdf", "manual.md": "markdown", "report.docx": "docx"}[name]
    return Document(name, kind_of_file, name, tuple(sections))


CONTRACT, MANUAL, REPORT = map(_document, ("contract.pdf", "manual.md", "report.docx"))
DOCUMENTS = {1: CONTRACT, 2: MANUAL, 3: REPORT}
ANSWERS = [MarkedAnswer(*part) for part in _parts("answers.txt")]
