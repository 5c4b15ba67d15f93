"""Writes formulas of web pages (MathML) and of office programs (OMML) as text: 1¾, 10⁶, √16, x₁.

Where a character has no raised or lowered form, a sign says so: e^(a/b), v_max.
"""

import re
from operator import eq
from unicodedata import combining, normalize
from xml.etree.ElementTree import Element

from engine.documents.numbering import value_of
from engine.documents.zips import local_name

_FORMS = {
    "^": str.maketrans("0123456789+-−=()nikxy", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱᵏˣʸ"),  # noqa: RUF001
    "_": str.maketrans("0123456789+-−=()nikxm", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₙᵢₖₓₘ"),  # noqa: RUF001
}
_FRACTIONS = {normalize("NFKC", each).replace("\u2044", "/"): each for each in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
_SIMPLE = re.compile(r"[\w.′°]*")  # noqa: RUF001
_OVER = {"¯": "\u0305", "‾": "\u0305", "^": "\u0302", "~": "\u0303", "˙": "\u0307", "→": "\u20d7"}
_WRITTEN = {  # by name and number of children: 0 is the first; (0: in brackets if need be
    "mfrac2": "(0/(1", "f2": "(0/(1", "msqrt1": "√(0", "mroot2": "^1√(0", "rad1": "√(0",
    "rad2": "^0√(1", "nary3": "_0^1 2", "func2": "0 1", "sPre3": "^1_02", "mphantom1": "",
    "phant1": "", **dict.fromkeys(("msup2", "sSup2", "mover2", "limUpp2"), "0^1"),
    **dict.fromkeys(("msub2", "sSub2", "munder2", "limLow2"), "0_1"),
    **dict.fromkeys(("msubsup3", "sSubSup3", "munderover3"), "0_1^2"),
}  # fmt: skip
_COUNTS = re.compile("[-+=\u2212]|" + "|".join((r"\d", *_FRACTIONS.values())))
_PIECE = re.compile(r"([(^_]?)([012])")
_BETWEEN = {
    "mtable": "; ",
    "m": "; ",
    "eqArr": "; ",
    **dict.fromkeys(("mtr", "mr", "mfenced", "d"), ", "),
}


def raised(text: str, *, before: str = "", sign: str = "^") -> str:
    """The text as an exponent, or with "_" as an index: 10⁶, x₁. Text without such a form stays as
    it is (4th), unless it changes a number right `before` it: 250^(1,2)."""
    moved = _moved(text, sign)
    counts = before[-1:].isalnum() and text[:1] not in "[(" and _COUNTS.search(text)
    return text if moved.startswith(sign) and not counts else moved


def apart(before: str, formula: str) -> str:
    """A formula after other text: two numbers side by side do not become one."""
    return f" {formula}" if before[-1:].isdigit() and formula[:1].isdecimal() else formula


def formula_text(formula: Element) -> str:
    return " ".join(_text(formula).split())


def _moved(text: str, sign: str) -> str:
    if not sign:
        return text
    text = text.replace(" ", "")
    moved = text.translate(_FORMS.get(sign, {}))
    if not any(map(eq, text, moved)):
        return moved
    return sign.strip("(") + (text if _SIMPLE.fullmatch(text) else f"({text})")


def _text(part: Element) -> str:
    name, written = local_name(part), (part.text or "").strip()
    parts = [each for each in part if not local_name(each).endswith("Pr")]
    texts = [*map(_text, parts)]
    given = {local_name(each): value_of(each) for each in part.iterfind("*/*")} | part.attrib
    over = given.get("chr", "¯" if name == "bar" else "^") if name in ("acc", "bar") else ""
    over = over or (texts[1] if name == "mover" and len(texts) == 2 else "")
    if texts and (mark := _OVER.get(over, over if any(map(combining, over)) else "")):
        return "".join(each + mark for each in texts[0])
    if name in ("msqrt", "mphantom"):  # their children are a row
        texts = ["".join(texts)]
    if name == "mmultiscripts" and texts:
        turn = [*map(local_name, parts), "mprescripts"].index("mprescripts")
        sides = texts[turn + 1 :], texts[1:turn]
        return texts[0].join(
            "".join(_moved(each, "_^"[i % 2]) for i, each in enumerate(side)) for side in sides
        )
    form = _WRITTEN.get(f"{name}{len(texts)}")
    if form is not None:
        if "noBar" in given.values() or given.get("linethickness", "")[:1] == "0":
            return f"({' over '.join(texts)})"
        made = _PIECE.sub(lambda piece: _moved(texts[int(piece[2])], piece[1]), form)
        return _FRACTIONS.get(made) or given.get("chr", "∫" * (name == "nary")) + made
    if between := _BETWEEN.get(name):
        ends = (
            given.get("begChr", given.get("open", "(")),
            given.get("endChr", given.get("close", ")")),
        )
        return between.join(texts).join(ends)
    if name in ("menclose", "borderBox") and "strike" in f"{part.get('notation')}{[*given]}":
        return f"~~{''.join(texts)}~~"
    if name in ("mspace", "mtext") or (written and written in "=<>≤≥≠≈≡→⇒⇔"):
        written = f" {written} "
    for each, text in zip(parts, texts, strict=True):
        written += apart(written, text) + (each.tail or "").strip()
    return written
