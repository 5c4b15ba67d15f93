"""Markdown becomes HTML that other programs take, and that loads nothing."""

from app.markdown.web import html_of


def test_what_models_write_becomes_html():
    for text, expected in (
        ("**bold** and `code`", "<p><strong>bold</strong> and <code>code</code></p>"),
        ("# Head", "<h1>Head</h1>"),
        ("~~gone~~", "<s>gone</s>"),
        ("1. one\n2. two", "<li>one</li>"),
        ("| a | b |\n|---|--:|\n| 1 | 2 |", '<td style="text-align:right">2</td>'),
        ("cost $x^2$ now", '<code class="formula">$x^2$</code>'),
        ("$$\na < b\n$$", '<pre class="formula">$$\na &lt; b\n$$</pre>'),
        ("```math\na < b\n```", '<pre class="formula">```math\na &lt; b\n```</pre>'),
        ("a ==**b** c== d", "a <mark><strong>b</strong> c</mark> d"),
        ("a==b, c==d, ==e `==`", "<p>a==b, c==d, ==e <code>==</code></p>"),
        ("H<sub>2</sub>O", "H<sub>2</sub>O"),
        ("as said[^1]", "<sup>[1]</sup>"),
        ("see https://example.org/x.", '<a href="https://example.org/x">'),
        ("```python\nif x:\n```", "<pre><code><span"),
        ("```nonsense\na < b\n```", "<pre><code>a &lt; b</code></pre>"),
        ("```\nopen\n", "<pre><code>open</code></pre>"),
        ("- [ ] one\n- [x] two", "<li>\u2610 one</li>\n<li>\u2611 two</li>"),
        ("> [!NOTE]\n> x", "<strong>Note</strong><br />\nx"),
        ("> [!WARNING] Hot *pot*\n> x", "<strong>Hot <em>pot</em></strong><br />\nx"),
        ("<table><tr><th align=right>A</th><td>*b*</td></tr></table>", "<td><em>b</em></td>"),
        ("<table><tr><th align=right>A</th></tr></table>", '<th style="text-align:right">A</th>'),
        ("<table>none</table>", "<p>&lt;table&gt;none&lt;/table&gt;</p>"),
        ("one\ntwo", "one<br />\ntwo"),
        ("<hr>", "<hr />"),
        ("<h2>T</h2> <ul><li>a</li></ul>", "<p><b>T</b> \u2022 a</p>"),
        ("<details><summary>*S*</summary>in</details>", "<summary><em>S</em></summary><p>in</p>"),
        ("<details>\n\nin", "<details><summary>Details</summary><p>in</p>\n</details>"),
        ("</details>\n\nout", "<p>out</p>"),
    ):
        assert expected in html_of(text), text


def test_nothing_is_loaded_and_nothing_is_run():
    for text in (
        "![a picture](https://example.org/a.png)",
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        '<img src="https://example.org/x.png" alt="a">',
        "<IMG SRC=https://example.org/x.png>",
        "> <p><img src='https://example.org/x.png'></p>",
        "| a |\n|---|\n| <img src='https://example.org/x.png'> |",
        "<table><tr><td><img src='https://example.org/x.png'></td></tr></table>",
        "<details><summary><img src='https://example.org/x.png'></summary></details>",
        "> [!NOTE] ![x](https://example.org/x.png)\n> x",
        "![x][r]\n\n[r]: https://example.org/x.png",
        "<picture><source srcset='https://example.org/x.png'></picture>",
        "<td background='https://example.org/x.png'><b style='background:url(https://e.org)'>x</b>",
        "[x](javascript:alert(1))",
        '![" onload="x](https://example.org/"><script>)',
        "```html\n<script src='x'></script>\n```",
    ):
        page = html_of(text).lower()
        assert "<img" not in page, text
        assert "<script" not in page, text
        assert "<source" not in page, text
        assert 'style="back' not in page, text
        assert 'href="javascript' not in page, text
    for picture in (
        "![a picture](https://e.org/a.png)",
        "<img src='https://e.org/a.png' alt='a picture'>",
    ):
        assert html_of(picture) == '<p><a href="https://e.org/a.png">a picture</a></p>\n'
