"""Formulas: laid out by a process or known to be malformed, drawn on the line, copied as source."""

import json
import sys

import pytest
from PySide6.QtGui import QColor, QImage, QTextCursor

from app.markdown.copying import written_text
from app.markdown.formats import Formats
from app.markdown.formula_layout import LONGEST, answer, lay_out
from app.markdown.formulas import FormulaLayouts
from app.markdown.page import OBJECT
from app.markdown.streaming import StreamingMarkdown
from app.markdown.view import TextView
from tests.support.app.kept import kept

FORMULAS = kept("formulas.txt").splitlines()
MALFORMED = ["", " ", "x" * (LONGEST + 1), "{" * 1_000 + "}" * 1_000]


def test_what_models_write_is_laid_out_with_numbers_and_without_labels():
    inline, apart = (lay_out(r"\sum_{i=1}^n \frac{1}{i}", display=apart) for apart in (False, True))
    assert inline["ascent"] + inline["descent"] < apart["ascent"] + apart["descent"]
    for number, latex in enumerate(FORMULAS):
        made = lay_out(latex, display=number % 4 > 0)
        assert made["width"] > 0, latex
        assert made["ascent"] + made["descent"] > 0, latex
        assert made["shapes"], latex
        for path, stroke, _ in made["shapes"]:
            assert path.startswith("M "), latex
            assert set("".join(path.split())) <= set("MLQCZ0123456789.-+e"), latex
            assert stroke >= 0, latex
    bare, numbered, labelled = (
        lay_out(f"x = 1{end}", display=True)["width"] for end in ("", r"\tag{7}", r"\label{eq}")
    )
    assert numbered > bare == labelled
    lines = r"\begin{align} x &= 1 \nonumber \\ y &= 2 \end{align}"
    starred = lines.replace("{align}", "{align*}")
    assert lay_out(lines, display=True) == lay_out(starred, display=True)


def test_an_answer_says_what_was_asked_and_malformed_formulas_have_no_outlines():
    for latex in ("x", *MALFORMED, *kept("formulas_malformed.txt").splitlines()):
        asked = {"latex": latex, "display": True, "written": f"$${latex}$$"}
        given = json.loads(answer(json.dumps(asked)))
        assert given.items() >= asked.items()
        assert bool(given["shapes"]) == (latex == "x"), latex


@pytest.fixture(scope="module")
def layouts(qapp):
    """One process lays out the formulas of all tests: it is there before the first."""
    made = FormulaLayouts()
    made.find("$warm$")
    while made.waiting:
        qapp.processEvents()
    yield made
    made.close()


@pytest.fixture
def show_formulas(show, formats, layouts, until):
    """A view with a finished text, whose formulas are laid out."""

    def make(text):
        view = show(text, Formats(formats.font, formats.colours, formulas=layouts))
        until(lambda: not layouts.waiting)
        return view

    return make


def whole(view):
    return written_text(view.document(), 0, view.document().characterCount())


def dark_pixels(view):
    picture = QImage(view.size(), QImage.Format.Format_RGB32)
    picture.fill(QColor("white"))
    view.render(picture)
    grey = picture.convertToFormat(QImage.Format.Format_Grayscale8)
    return sum(lightness < 100 for lightness in bytes(grey.constBits()))


def answering(trouble="pass"):
    """A program that answers as the one that lays out, but for the formula that is bad."""
    program = (
        "import json, os, resource, sys, time\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        f"    if asked['latex'] == 'bad': {trouble}\n"
        "    asked |= {'width': 9, 'ascent': 9, 'descent': 0, 'shapes': [['M 0 0', 0, '']]}\n"
        "    print(json.dumps(asked), flush=True)\n"
    )
    return sys.executable, "-c", program


def test_outlines_come_from_a_process(layouts, until):
    assert layouts.find("$x$") is None
    assert layouts.find(r"$$\frac{a$$") is None
    assert layouts.waiting
    until(lambda: not layouts.waiting)
    outline = layouts.find("$x$")
    assert outline.width > 0
    assert layouts.find(r"$$\frac{a$$") is None
    assert not layouts.waiting  # a malformed one is not asked about again


def test_an_idle_process_is_ended_and_started_again(qtbot, until):
    layouts = FormulaLayouts(command=answering(), idle_seconds=0.01)
    layouts.find("$x$")
    until(lambda: layouts.find("$x$") is not None and not layouts.pid)
    layouts.find("$y$")
    until(lambda: layouts.find("$y$") is not None)
    layouts.close()
    layouts.find("$z$")
    assert not layouts.waiting
    assert not layouts.pid
    none = FormulaLayouts(command=("/no/such/program",))
    for written in ("$a$", "$b$"):
        none.find(written)
    until(lambda: not none.waiting)
    assert none.find("$a$") is None
    none.close()


@pytest.mark.quick(1)
@pytest.mark.parametrize("trouble", ["time.sleep(60)", "os.abort()", "sys.exit(3)"])
def test_a_formula_that_ends_or_holds_the_process_is_malformed(qtbot, until, trouble):
    layouts = FormulaLayouts(command=answering(trouble), patience_seconds=1.0)
    for written in ("$a$", "$bad$", "$b$"):
        layouts.find(written)
    until(lambda: not layouts.waiting)
    assert layouts.find("$a$") is not None
    assert layouts.find("$bad$") is None
    assert layouts.find("$b$") is not None
    layouts.close()


def test_a_formula_is_one_object_and_a_malformed_one_its_source(show_formulas):
    text = "The sum $\\sum_i x_i$ and \\(y\\):\n\n$$\n\\frac{a}{b}\n- c\n$$\n\nend"
    view = show_formulas(text)
    assert view.toPlainText().count(OBJECT) == 3
    assert whole(view) == text.replace("\n\n", "\n")
    cursor = view.document().find(OBJECT)
    assert written_text(view.document(), cursor.selectionStart(), cursor.selectionEnd()) == (
        "$\\sum_i x_i$"
    )
    malformed = show_formulas("a $\\frac{a$ b")
    assert whole(malformed) == "a $\\frac{a$ b"
    assert dark_pixels(malformed) > dark_pixels(show_formulas("a b")) + 50


def test_each_character_of_a_formula_has_its_place_while_tokens_are_shown(show, show_formulas):
    text = "> a $x_i$ b\n\n$$\ny + 1\n$$"
    without = show(text)
    assert without.toPlainText() == "a $x_i$ b\n$$\ny + 1\n$$"
    view = show_formulas(text)
    start = text.index("$x")
    assert len(set(map(tuple, (view.text.ranges(n, n + 1) for n in range(start, start + 5))))) == 1
    view.text.show_formulas(False)
    view.text.settle()
    assert OBJECT not in view.toPlainText()
    for place, character in enumerate(text):
        if character.isalnum():
            ((first, last),) = view.text.ranges(place, place + 1)
            cursor = QTextCursor(view.document())
            cursor.setPosition(first)
            cursor.setPosition(last, QTextCursor.MoveMode.KeepAnchor)
            assert cursor.selectedText() == character
    view.text.show_formulas(True)
    view.text.settle()
    assert view.toPlainText().count(OBJECT) == 2


def test_an_unfinished_formula_is_shown_as_its_source(formats, layouts, qtbot):
    view = TextView(Formats(formats.font, formats.colours, formulas=layouts), StreamingMarkdown())
    qtbot.addWidget(view)
    text = "so\n\n$$\na\n- b\n$$\n"
    for end in range(1, len(text) + 1):
        view.text.append(text[end - 1])
        view.text.settle()
        closed = text[:end].rstrip().endswith("b\n$$")
        assert (OBJECT in view.toPlainText()) == closed
        assert "\u2022" not in view.toPlainText()  # no list meanwhile
