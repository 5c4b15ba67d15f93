"""A text in a Markdown file loads nothing, swallows nothing, and has lower headings."""

import pytest
from markdown_it import MarkdownIt

from app.conversations.exchange import to_markdown
from app.conversations.markdown_part import part
from app.conversations.records import Entry, ExportedChat

LOADING = [
    "![x](https://e.org/p.png)",
    "a ![x][r]\n\n[r]: https://e.org/p.png",
    "![r]\n\n[r]: https://e.org/p.png",
    "![a [b] c](https://e.org/p.png)",
    "![two\nlines](https://e.org/p.png)",
    "\\`![x](https://e.org/p.png)`",
    "`\n\n![x](https://e.org/p.png)\n\n`",
    "| a |\n|---|\n| ![x](https://e.org/p.png) |",
    "> - ![x](https://e.org/p.png)",
    f"{'> ' * 30}![x](https://e.org/p.png)",
    '<img src="https://e.org/p.png">',
    "<IMG\nsrc=https://e.org/p.png>",
    "<div>\n`<img src=https://e.org/p.png>`\n</div>",
    "<picture><source srcset=https://e.org/p.png></picture>",
    "<td background=https://e.org/p.png>",
    "<span style='background: url(https://e.org/p.png)'>x</span>",
    "<svg/onload=load()>",
    "<style>@import 'https://e.org/a.css'</style>",
    "<iframe src=https://e.org></iframe>",
]


@pytest.mark.parametrize("text", LOADING)
def test_nothing_is_loaded(text):
    page = MarkdownIt("commonmark", {"maxNesting": 100}).enable("table").render(part(text)).lower()
    signs = ("<img", "<source", "<svg", "<style", "<iframe", "<td b", "<span style")
    assert [sign for sign in signs if sign in page] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see ![x](https://e.org/p.png)", "see [x](https://e.org/p.png)"),
        ("`![x](y)` and vec![1] <https://e.org>", "`![x](y)` and vec!\\[1] <https://e.org>"),
        ("```\n![x](y) <img>\n```", "```\n![x](y) <img>\n```"),
        ("    ![x](y) <img>", "    ![x](y) <img>"),
        ("1 < 2, <b>c</b>, <br>, <a href='https://e.org'>d</a>",) * 2,
        ("# One\n\n## Two\n###### Six", "### One\n\n#### Two\n###### Six"),
        ("One\n===\n\nTwo\n---\nx", "### One\n\n### Two\nx"),
        ("One\r===\rx", "### One\nx"),
        ("> # One", "> ### One"),
        ("```py\nopen", "```py\nopen\n```"),
        ("~~~~\n~~~\nopen\n", "~~~~\n~~~\nopen\n\n~~~~"),
        ("<details>\n\nopen", "<details>\n\nopen\n\n</details>"),
        ("<!-- open", "&lt;!-- open"),
        ("<pre>\nopen", "&lt;pre>\nopen"),
    ],
)
def test_the_rest_is_as_it_was_written(text, expected):
    assert part(text) == expected


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
@pytest.mark.parametrize("text", ["```", "~~~~ x", "<!--", "<script>", "# Two\n```\nx"])
def test_every_message_keeps_its_own_heading(role, text):
    said = (Entry(None, role, text), Entry(0, "assistant", "after", target="T ![x](y)"))
    written = to_markdown(ExportedChat("T ![x](y)", said, leaf=1, system_prompt=text))
    tokens = MarkdownIt("commonmark").parse(written)
    levels = [token.tag for token in tokens if token.type == "heading_open" and token.tag < "h3"]
    assert levels == ["h1", "h2", "h2", "h2"]
    assert "![" not in written
