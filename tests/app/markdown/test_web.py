"""Markdown becomes HTML that other programs take, and that loads nothing."""

from app.markdown.web import html_of


def test_what_models_write_becomes_html() -> None:
    for text, expected in (
        ("**bold** and `code`", "<p><strong>bold</strong> and <code>code</code></p>"),
        ("# Head", "<h1>Head</h1>"),
        ("~~gone~~", "<s>gone</s>"),
        ("1. one\n2. two", "<li>one</li>"),
        ("| a | b |\n|---|--:|\n| 1 | 2 |", '<td style="text-align:right">2</td>'),
        ("cost $x^2$ now", '<code class="formula">$x^2$</code>'),
        ("$$\na < b\n$$", '<pre class="formula">$$\na &lt; b\n$$</pre>'),
        ("H<sub>2</sub>O", "H<sub>2</sub>O"),
        ("as said[^1]", "<sup>[1]</sup>"),
        ("see https://example.org/x.", '<a href="https://example.org/x">'),
        ("```python\nif x:\n```", "<pre><code><span"),
        ("```nonsense\na < b\n```", "<pre><code>a &lt; b</code></pre>"),
        ("```\nopen\n", "<pre><code>open</code></pre>"),
    ):
        assert expected in html_of(text), text


def test_nothing_is_loaded_and_nothing_is_run() -> None:
    for text in (
        "![a picture](https://example.org/a.png)",
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        '![" onload="x](https://example.org/"><script>)',
        "```html\n<script src='x'></script>\n```",
    ):
        page = html_of(text).lower()
        assert "<img" not in page, text
        assert "<script" not in page, text
        assert 'href="javascript' not in page, text
    assert html_of("![a picture](https://example.org/a.png)") == (
        '<p><a href="https://example.org/a.png">a picture</a></p>\n'
    )
