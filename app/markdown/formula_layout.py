"""Converts LaTeX to outlines, as a program of its own, so that no formula makes a window wait.

Reads lines of JSON, {"latex": ..., "display": ...}, and answers each with the same object and the
outlines, or without them for a malformed formula. ziamath lays out the formulas in STIX Two Math.
Knows LaTeX; no Qt and no Markdown.

Lengths are hundredths of the font's size. `y` grows downwards from the baseline at 0.
"""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from ziamath.config import config
from ziamath.tex import tex2mml
from ziamath.zmath import Math

SIZE = 100
LONGEST = 4_000  # characters
_BRACED = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
_ENVIRONMENT = re.compile(r"\\begin\{([^{}]*)\}")
_KNOWN = re.compile(
    r"([pbBvV]|small)?matrix\*?|r?cases|align\*?|array|subarray|equation\*?|displaymath|math"
    r"|split|aligned|alignat\*?|alignedat|eqnarray\*?|gather(ed)?\*?|multline\*?"
)
# LaTeX that models write and latex2mathml does not know, in commands that it knows.
_SAME = (
    (re.compile(r"\\(?:begin|end)\{(?:equation|displaymath|math)\*?\}"), ""),
    (re.compile(r"\\begin\{align(?:ed)?at\*?\}\{\d+\}"), r"\\begin{align*}"),
    (re.compile(r"\\(begin|end)\{(?:split|aligned|align(?:ed)?at|eqnarray)\*?\}"), r"\\\1{align*}"),
    (re.compile(r"\\(begin|end)\{(?:gather|gathered|multline)\*?\}"), r"\\\1{matrix}"),
    (re.compile(r"\\(?:bm|mathbfit|pmb)\b"), r"\\boldsymbol"),
    (re.compile(r"\\label\{[^{}]*\}"), ""),
    (re.compile(r"\\tag\*?\{([^{}]*)\}"), r"\\qquad\\text{(\1)}"),
    (re.compile(r"\\(?:nonumber|notag|middle)\b"), ""),
    (re.compile(r"\\not\s*="), r"\\neq"),
    (re.compile(r"\\not\s*\\in\b"), r"\\notin"),
    (re.compile(r"\\(?:eqref|ref)\{([^{}]*)\}"), r"\\text{(\1)}"),
)
_NUMBERED = re.compile(r"\\(?:tag|notag|nonumber)\b")
_CHEMISTRY = re.compile(r"\\ce" + _BRACED)
_ARROWS = {"<=>": r"\rightleftharpoons ", "<->": r"\leftrightarrow ", "->": r"\rightarrow "}
_CHEMICAL = re.compile(
    r"(?P<arrow><=>|<->|->)|(?<=[A-Za-z)\]])(?P<count>\d+)|\^(?P<charge>\d*[+-]|\{[^{}]*\})"
    r"|(?<=[A-Za-z0-9)\]])(?P<sign>[+-])(?=[\s,;.)]|$)"
)
# Binary operators that ziamath sets without space.
_BETWEEN = re.compile("<mo>(&#x0(?:222A|2229|2227|2228|2295|2297|2216|228E|27FA|21D4);)</mo>")


def lay_out(latex: str, *, display: bool) -> dict[str, Any]:
    """Return the outlines of a formula. For a malformed one, raises ValueError or an error of
    ziamath."""
    if len(latex) > LONGEST or not _is_balanced(latex):
        raise ValueError("The formula is too long, or its braces do not match.")
    if any(_KNOWN.fullmatch(name) is None for name in _ENVIRONMENT.findall(latex)):
        raise ValueError("The formula uses an environment that is not known.")
    latex = _CHEMISTRY.sub(lambda found: _chemical(found[1]), latex)
    if _NUMBERED.search(latex):  # otherwise each line of it would have a number
        latex = latex.replace("{align}", "{align*}")
    for pattern, same in _SAME:
        latex = pattern.sub(same, latex)
    mathml = tex2mml(latex, inline=not display)
    if "\\" in mathml:
        raise ValueError("The formula uses a command that is not known.")
    mathml = _BETWEEN.sub(r'<mo lspace="0.22em" rspace="0.22em">\1</mo>', mathml)
    config.svg2 = False  # outlines where they are drawn, instead of symbols and references
    node = Math(mathml, size=SIZE).node
    drawn = ElementTree.Element("svg")
    node.draw(-node.bbox.xmin, 0, drawn)
    shapes = list(_shapes(drawn))
    if not shapes:
        raise ValueError("The formula shows nothing.")
    return {
        "width": round(node.bbox.xmax - node.bbox.xmin, 2),
        "ascent": round(node.bbox.ymax, 2),
        "descent": round(-node.bbox.ymin, 2),
        "shapes": shapes,
    }


def answer(line: str) -> str:
    """Return the answer to one line of input, without a line end."""
    asked = json.loads(line)
    try:
        asked |= lay_out(asked["latex"], display=asked["display"])
    except Exception:  # its source is shown for any fault
        asked["shapes"] = None
    return json.dumps(asked)


def _is_balanced(latex: str) -> bool:
    depth = 0
    for brace in re.findall(r"(?:\\.|[{}])", latex, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        if depth < 0:
            return False
    return depth == 0


def _chemical(text: str) -> str:
    """Convert a chemical formula as mhchem does: counts below, charges above, arrows."""

    def write(found: re.Match[str]) -> str:
        match found.lastgroup:
            case "arrow":
                return _ARROWS[found["arrow"]]
            case "count":
                return f"_{{{found['count']}}}"
            case "charge":
                return f"^{{{found['charge'].strip('{}')}}}"
        return f"^{{{found['sign']}}}"

    return rf"\mathrm{{{_CHEMICAL.sub(write, text)}}}"


def _shapes(drawn: ElementTree.Element) -> Iterator[tuple[str, float, str]]:
    """Iterate over SVG paths with their stroke width, 0 for filled paths, and their colour, empty
    for the text's own."""
    for element in drawn.iter():
        thickness = float(element.get("stroke-width", 0))
        colour = element.get("stroke" if thickness else "fill") or ""
        if path := _path(element):
            yield path, thickness, "" if colour == "black" else colour


def _path(element: ElementTree.Element) -> str:
    if element.tag == "path":
        return element.get("d", "")
    if element.tag == "rect":
        x, y, width, height = (float(element.get(key, 0)) for key in ("x", "y", "width", "height"))
        return f"M {x} {y} L {x + width} {y} L {x + width} {y + height} L {x} {y + height} Z"
    return ""


if __name__ == "__main__":
    for asked_line in sys.stdin:
        print(answer(asked_line), flush=True)
