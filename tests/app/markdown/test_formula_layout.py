"""LaTeX as models write it: laid out, or known to be malformed."""

import json
from itertools import product

from app.markdown.formula_layout import LONGEST, answer, lay_out
from tests.support.app.kept import kept

FORMULAS = kept("formulas.txt").splitlines()
MALFORMED = [
    "",
    " ",
    r"\frac{a",
    r"\frac{a}",
    r"a}",
    r"\unknown{x}",
    r"\left( a",
    r"x^2^3",
    r"a & b",
    r"\begin{tikzpicture} x \end{tikzpicture}",
    r"\begin{matrix} a",
    r"\end{matrix}",
    "x" * (LONGEST + 1),
    "{" * 1_000 + "}" * 1_000,
]


def test_what_models_write_is_laid_out():
    inline, apart = (lay_out(r"\sum_{i=1}^n \frac{1}{i}", display=apart) for apart in (False, True))
    assert inline["ascent"] + inline["descent"] < apart["ascent"] + apart["descent"]
    for latex, display in (*product(FORMULAS, (True,)), *product(FORMULAS[::4], (False,))):
        made = lay_out(latex, display=display)
        assert made["width"] > 0, latex
        assert made["ascent"] + made["descent"] > 0, latex
        assert made["shapes"], latex
        for path, stroke, _ in made["shapes"]:
            assert path.startswith("M "), latex
            assert set("".join(path.split())) <= set("MLQCZ0123456789.-+e"), latex
            assert stroke >= 0, latex


def test_an_answer_says_what_was_asked_and_malformed_formulas_have_no_outlines():
    for latex in ("x", *MALFORMED):
        asked = {"latex": latex, "display": True, "written": f"$${latex}$$"}
        given = json.loads(answer(json.dumps(asked)))
        assert given.items() >= asked.items()
        assert bool(given["shapes"]) == (latex == "x"), latex


def test_the_number_of_a_formula_is_shown_and_its_label_is_not():
    bare, numbered, labelled = (
        lay_out(f"x = 1{end}", display=True)["width"] for end in ("", r"\tag{7}", r"\label{eq}")
    )
    assert numbered > bare == labelled
    lines = r"\begin{align} x &= 1 \nonumber \\ y &= 2 \end{align}"
    starred = lines.replace("{align}", "{align*}")
    assert lay_out(lines, display=True) == lay_out(starred, display=True)
