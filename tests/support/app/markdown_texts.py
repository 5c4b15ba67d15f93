"""Texts for the tests: Markdown of every kind, whole and broken, and nasty characters."""

from itertools import pairwise

from hypothesis import strategies as st

SNIPPETS = [
    "# Head",
    "para **bold** *it* ~~gone~~ `code`",
    "---",
    "===",
    "- item",
    "  - inner",
    "* star",
    "1. one",
    "7) seven",
    "- [x] done",
    "- [ ] open",
    "> quote",
    "> > deep",
    ">",
    "-",
    "#",
    "```python",
    "```",
    "~~~",
    "  ```",
    "    indented",
    "\tx = 1",
    "-\ttab",
    ">\tq",
    "| a | b\\|c |",
    "|---|:-:|",
    "| 1 | **2** |",
    "| a | b\\|c |\n|---|:-:|\n| 1 | **2** |",
    "|h|\n|-|\n|\U0001f600|\n\n|h|\n|-|",
    "|-",
    "| a |",
    "|-x",
    "#tag",
    "[link](http://a.b/c 'd')",
    "[file](file:///etc/passwd)",
    "[ref]: http://a.b",
    "[ref]",
    "![alt *x*](https://i/x.png)",
    "<http://auto.link>",
    "<b onclick=x>html</b>",
    "&amp; &#35; &copy \\* \\a",
    "`` a ` b ``",
    "two  ",
    "back\\",
    "\u202eevil\u2066",
    "\x1b[31m\x00\x07",
    "\u2028\u2029\ufdd0\ufffc",
    "😀 é 日本 e\u0301",
    "a\U000e0041b",
    "$E = mc^2$ and $5 or $10, $A/b:$C",
    "so $$\\sum_i x_i$$ is",
    "\\(a_b\\) \\[c",
    "$$",
    "\\[",
    "\\]",
    "$$\n= a\n- b\n$$",
    "  $$ x $$.",
    "\\begin{align}\na &= b \\\\\n\\end{align}",
    "$",
    "https://a.b/c_d?e=(f). (http://g.h)",
    "note[^1]",
    "[^1]: the note",
    "x<sub>2</sub><br>y<sup>3</sup> <kbd>K</kbd> </sub> <!-- n -->",
    "<details><summary>More</summary>",
    "</details>",
    "",
    " ",
]

lines = st.lists(st.sampled_from(SNIPPETS) | st.text(max_size=12), max_size=14)
breaks = st.sampled_from(["\n", "\n", "\n", "\n\n", " ", "\r\n"])
markdown = st.builds(
    lambda rows, ends: "".join(
        row + end for row, end in zip(rows, ends + ["\n"] * len(rows), strict=False)
    ),
    lines,
    st.lists(breaks, max_size=14),
)

reasoning = st.builds(
    lambda opening, inside, closing, rest: opening + inside + closing + rest,
    st.sampled_from(["<think>", "\n<think>\n", "<think", "", "[THINK]"]),
    markdown,
    st.sampled_from(["</think>", "</think>\n", "\n</think>\n\n", "</thi", "", "[/THINK]"]),
    markdown,
)


def split(text, cuts):
    """`text` in pieces, cut at these places."""
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    return [text[a:b] for a, b in pairwise(places)]


cut_places = st.lists(st.integers(0, 200), max_size=12)
