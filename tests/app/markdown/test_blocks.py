"""Each construct of Markdown as the lines, styles and places that it becomes."""

from app.markdown.blocks import BlockReader
from app.markdown.page import Item, Table, TextLine, TextRun, all_runs


def read(text: str) -> list[Item]:
    blocks = BlockReader().read(text, base=0, after=None)
    return [item for block in blocks for item in block.items]


def line(text: str) -> TextLine:
    (item,) = read(text)
    assert isinstance(item, TextLine)
    return item


def words(item: TextLine) -> str:
    return "".join(run.text for run in item.runs)


def styled(text: str, **style: object) -> list[str]:
    """The runs of a paragraph that have this style."""
    runs = line(text).runs
    return [r.text for r in runs if all(getattr(r.style, k) == v for k, v in style.items())]


def sources(text: str) -> list[tuple[str, str]]:
    """What is shown, and what it was written as."""
    runs: list[TextRun] = []
    for item in read(text):
        lines = [item] if isinstance(item, TextLine) else [c for row in item.rows for c in row]
        runs += [run for one in lines for run in one.runs]
    return [(run.text, text[run.source : run.end]) for run in runs]


def test_styles() -> None:
    text = "a *b* **c** ~~d~~ `e` ***f***"
    assert styled(text, italic=True) == ["b", "f"]
    assert styled(text, bold=True) == ["c", "f"]
    assert styled(text, struck=True) == ["d"]
    assert styled(text, code=True) == ["e"]
    assert words(line(text)) == "a b c d e f"


def test_headings() -> None:
    for level in range(1, 7):
        heading = line("#" * level + " Head *line* ##")
        assert (heading.block.shape, heading.block.level) == ("heading", level)
        assert words(heading) == "Head line"


def test_headings_with_a_line_below() -> None:
    assert line("Head\n====").block.level == 1
    assert sources("Head\n---") == [("Head", "Head")]


def test_links_of_the_web_only() -> None:
    assert styled("[a](https://b.c/d?e=f)", href="https://b.c/d?e=f") == ["a"]
    assert styled("<http://b.c>", href="http://b.c") == ["http://b.c"]
    for address in ("file:///etc/passwd", "/etc/passwd", "javascript:x", "data:x,y", "ftp://a"):
        assert words(line(f"[a]({address})")) == f"[a]({address})"
        assert words(line(f"![a]({address})")) == f"![a]({address})"
    assert words(line("[a][b]\n[b]: http://c")) == "[a][b]\u2028[b]: http://c"


def test_an_image_is_its_description_and_a_link() -> None:
    runs = line("![a *dog*](http://b.c/d.png)").runs
    assert "".join(run.text for run in runs) == "image a dog"
    assert {run.style.href for run in runs} == {"http://b.c/d.png"}
    assert words(line("![](http://b.c/d.png)")) == "image http://b.c/d.png"


def test_html_is_shown() -> None:
    text = "<img src=file:///x onerror=y> a <widget>c</widget> <b>d <!-- e -->"
    assert words(line(text)) == text
    assert words(line("<form>\n<input>a\n</form>")) == "<form>\u2028<input>a\u2028</form>"
    for address in ("file:///x", "javascript:x"):
        assert words(line(f"<a href='{address}'>b</a>")).startswith("<a href")


def test_line_ends() -> None:
    assert words(line("a\nb  \nc\\\nd")) == "a\u2028b\u2028c\u2028d"


def test_lists() -> None:
    items = read("3. a\n4. b\n   - c\n     * d\n\n      e\n5. [x] f\n6. [ ] g\n7.")
    assert [words(item) for item in items if isinstance(item, TextLine)] == [
        "3.\ta",
        "4.\tb",
        "\u2022\tc",
        "\u25e6\td",
        "e",
        "\u2611\tf",
        "\u2610\tg",
        "7.\t",
    ]
    assert [item.block.left for item in items] == [30, 30, 54, 78, 54, 30, 30, 30]
    assert [bool(item.block.marker) for item in items] == [True] * 4 + [False] + [True] * 3


def test_tight_and_loose_lists() -> None:
    tight, loose = read("- a\n- b"), read("- a\n\n- b")
    assert tight[1].block.above < loose[1].block.above


def test_a_list_after_a_marker() -> None:
    assert [words(item) for item in read("- - a\n- > b") if isinstance(item, TextLine)] == [
        "\u2022\t",
        "\u25e6\ta",
        "\u2022\t",
        "b",
    ]


def test_quotes() -> None:
    items = read("> a\n> > b\n\nc")
    bars = [tuple(bar.left for bar in item.block.bars) for item in items]
    assert bars == [(0,), (0, 16), ()]
    assert [item.block.left for item in items] == [16, 32, 0]


def test_code_blocks() -> None:
    items = read("```py title\na\n\n  b\n```")
    assert [words(item) for item in items if isinstance(item, TextLine)] == ["py", "a", "", "  b"]
    assert [item.block.shape for item in items] == ["label", "code", "code", "code"]
    assert {item.block.panel for item in items} == {0}
    assert [words(i) for i in read("    a\n\tb") if isinstance(i, TextLine)] == ["code", "a", "b"]
    assert sources("> ```\n> x = 1\n> ```\n")[1] == ("x = 1", "x = 1")
    assert sources("- ~~~ c\n  x\n  ~~~\n")[-2:] == [("c", "c"), ("x", "x")]


def test_two_code_blocks_are_two_panels() -> None:
    panels = [item.block.panel for item in read("```\n```\n```\n```")]
    assert len(panels) == len(set(panels)) == 2


def test_tables() -> None:
    (table,) = read("| a | b\\|c |\n|:--|--:|\n| *1* | |\n| 2 |\n")
    assert isinstance(table, Table)
    assert [[words(cell) for cell in row] for row in table.rows] == [
        ["a", "b|c"],
        ["1", ""],
        ["2", ""],
    ]
    assert [cell.block.alignment for cell in table.rows[1]] == ["left", "right"]
    assert all(run.style.bold for cell in table.rows[0] for run in cell.runs)


def test_rules() -> None:
    assert line("***").block.shape == "rule"


def test_control_characters_are_marks() -> None:
    assert sources("a\u202eb `\x1b`") == [
        ("a", "a"),
        ("[U+202E]", "\u202e"),
        ("b ", "b "),
        ("[U+001B]", "\x1b"),
    ]


def test_sources() -> None:
    assert sources("&amp;\\*\\a `` ` ``") == [
        ("&", "&amp;"),
        ("*", "\\*"),
        ("\\a", "\\a"),
        (" ", " "),
        ("`", "`"),
    ]
    assert sources("- *a*\n  b") == [
        ("\u2022", "-"),
        ("\t", ""),
        ("a", "a"),
        ("\u2028", "\n"),
        ("b", "b"),
    ]
    assert sources("> a\n> b") == [("a", "a"), ("\u2028", "\n"), ("b", "b")]
    assert sources("|a\\|b|\n|-|\n|x `c`|")[0:1] == [("a", "a")]
    assert sources("|x|\n|-|\n| *c* `d` |") == [
        ("x", "x"),
        ("c", "c"),
        (" ", " "),
        ("d", "d"),
    ]
    assert sources("- [x] a")[0] == ("\u2611", "- [x]")


def test_deep_nesting_is_shown_as_it_is() -> None:
    for deep in ("- " * 10_000 + "x", ">" * 10_000 + "x", "1. " * 99 + "*x*"):
        items = read(deep)
        assert {item.block.shape for item in items} == {"plain"}
        assert "".join(words(item) for item in items if isinstance(item, TextLine)) == deep


def formulas(text: str) -> list[str]:
    """What was written for each formula, as it is laid out and where the source has it."""
    runs = [run for run in all_runs(read(text)) if run.style.formula]
    assert all(text[run.source : run.end].strip() == run.style.formula for run in runs)
    return [run.style.formula for run in runs]


def test_formulas_in_a_paragraph() -> None:
    for formula in (
        "$x$",
        "$x_1 * y_2 * z$",
        "$$x$$",
        r"\(a_b\)",
        r"\[a_b\]",
        r"$\$5$",
        r"$a \\ b$",
        r"\(\left(a\right)\)",
        "$a\nb$",
    ):
        assert formulas(f"so {formula}, then") == [formula]
        assert formulas(f"**so {formula}**") == [formula]


def test_what_is_no_formula() -> None:
    texts = (
        "It costs $5 and $10.",
        "Between $5-$10 or ($5/$6), US$7.",
        "$ x $ and $x $ and $ x$",
        r"\$x\$ \\(x\\)",
        "`$x$` `\\(x\\)`",
        "$",
        "$$",
        "$$$$",
        "$x",
        "\\(x",
        "$a\n\nb$",
        "$$\na\n\nb\n$$",
        "$\u202ex$",
    )
    assert {text: seen for text in texts if (seen := formulas(text))} == {}


def test_formulas_on_lines_of_their_own() -> None:
    for formula in (
        "$$\na\n- b\n= c\n$$",
        "$$ a\n+ b $$",
        "\\[\na\n\\]",
        "$$a$$",
        "$$\n# a\n$$.",
    ):
        (item,) = read(formula)
        assert (item.block.shape, item.block.alignment) == ("formula", "center")
        assert formulas(formula) == [formula]
        assert formulas(f"text\n{formula}\ntext") == [formula]
        shapes = [item.block.shape for item in read(f"text\n{formula}\ntext")]
        assert shapes == ["text", "formula", "text"], formula


def test_formulas_in_lists_quotes_and_tables() -> None:
    for text in ("- x\n  $$\n  a\n  - b\n  $$\n- y", "> $$\n> a\n> - b\n> $$\n"):
        (run,) = (run for run in all_runs(read(text)) if run.style.formula)
        assert run.style.formula == "$$\na\n- b\n$$"
        assert text[run.source : run.end].split() in (
            ["$$", "a", "-", "b", "$$"],
            ["$$", ">", "a", ">", "-", "b", ">", "$$"],
        )
    assert formulas("| $a$ | b |\n|-|-|\n| 1 | $c_d$ |\n") == ["$a$", "$c_d$"]


def test_a_formula_apart_within_a_paragraph_gets_a_line() -> None:
    items = read("a $$x$$ b")
    assert [item.block.shape for item in items] == ["text", "formula", "text"]
    assert words(items[2]) == "b" if isinstance(items[2], TextLine) else False


def test_bare_addresses_are_links() -> None:
    for text, address in (
        ("see https://a.b/c_d_e?f=g&h.", "https://a.b/c_d_e?f=g&h"),
        ("(http://a.b/c_(d))", "http://a.b/c_(d)"),
        ("**https://a.b/c**", "https://a.b/c"),
        ("HTTPS://A.B/c,", "HTTPS://A.B/c"),
    ):
        assert styled(text, href=address) == [address]
        assert all(text[run.source : run.end] == run.text for run in line(text).runs)


def test_what_is_no_address() -> None:
    texts = "xhttp://a.b", "http://", "ftp://a.bc", "file:///etc/passwd", "a: //b", "`http://a.b`"
    assert [text for text in texts for run in line(text).runs if run.style.href] == []


def test_an_address_in_a_link_is_not_another() -> None:
    assert styled("[see http://a.b](http://c.d)", href="http://c.d") == ["see http://a.b"]


def test_footnotes() -> None:
    assert styled("text[^1] and[^a-b].", script="above") == ["1", "a-b"]
    assert sources("[^1]: The *note*.") == [
        ("1", "[^1]:"),
        (" The ", " The "),
        ("note", "note"),
        (".", "."),
    ]


def test_harmless_html() -> None:
    text = "H<sub>2</sub>O x<sup>2</sup> <kbd>K</kbd> a<br>b"
    assert styled(text, script="below") == ["2"]
    assert styled(text, script="above") == ["2"]
    assert styled(text, key=True) == ["K"]
    assert words(line(text)) == "H2O x2 K a\u2028b"
    for other in ("</sub>", "<sub>", "<subx>a</subx>"):
        assert words(line(other)) == other
    assert styled("<b>a</b> <strong>b</strong>", bold=True) == ["a", "b"]
    assert styled("<i onclick=x>a</i> <em>b</em>", italic=True) == ["a", "b"]
    assert styled("<u>a</u> <ins>b</ins>", underlined=True) == ["a", "b"]
    assert styled("<mark>a</mark>", marked=True) == ["a"]
    assert styled("<s>a</s> <del>b</del>", struck=True) == ["a", "b"]
    assert styled("<a href='https://b.c/d'>e</a>", href="https://b.c/d") == ["e"]
    assert words(line("<span style='color:red'>a</span> <p>b")) == "a <p>b"
    folded = read("<details>\n<summary>More</summary>\n\nText\n\n</details>\n\nAfter")
    assert [words(item) for item in folded if isinstance(item, TextLine)] == [
        *("More", "Text", "", "After")
    ]
    assert [item.block.shape for item in folded] == ["summary", "text", "fold_end", "text"]
    assert [item.block.folds for item in folded] == [(0,), (0,), (0,), ()]


def test_emphasis_beside_chinese_punctuation() -> None:
    for text, bold in (
        (
            "**\u5386\u7ecf10\u5e74\u53d1\u5c55\uff0c**\u5e74",
            "\u5386\u7ecf10\u5e74\u53d1\u5c55\uff0c",
        ),
        ("\u9879\u76ee**\u201c\u521b\u65b0\u201d**\u53d6", "\u201c\u521b\u65b0\u201d"),
        ("**\ub9c8(Markdown)**\uc740", "\ub9c8(Markdown)"),
    ):
        assert styled(text, bold=True) == [bold]
    assert styled("2**(3)**x **(a)**", bold=True) == ["(a)"]  # as CommonMark has it


def test_numbers_have_room() -> None:
    left = [item.block.left for item in read("98. a\n99. b\n100. c")]
    assert left[0] == left[2] > read("1. a\n2. b")[0].block.left


def test_lines_from_right_to_left() -> None:
    text = "- \u05e4\u05e8\u05d9\u05d8\n- english\n\n> `code` \u05e6\u05d9\u05d8\u05d5\u05d8"
    assert [item.block.rtl for item in read(text)] == [True, False, True]


def test_admonitions() -> None:
    title, text = read("> [!NOTE]\n> Text *here*.")
    assert isinstance(title, TextLine)
    assert isinstance(text, TextLine)
    assert (words(title), words(text)) == ("Note", "Text here.")
    assert [bar.tone for bar in text.block.bars] == ["note"]
    assert words(line("> [!nothing]")) == "[!nothing]"


def test_tables_in_html() -> None:
    text = "<table>\n<tr><th>a</th><th>b</th></tr>\n<tr><td><b>1</b></td></tr>\n</table>"
    (table,) = read(text)
    assert isinstance(table, Table)
    assert [[words(cell) for cell in row] for row in table.rows] == [["a", "b"], ["1", ""]]
