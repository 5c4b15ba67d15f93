"""What a page's styles hide and cross out, as the text of the page."""

from engine.documents.web import read_html, read_page


def text_of(html, *sheets):
    return "\n\n".join(part.text for part in read_page(html, *sheets).parts)


HIDDEN = (
    "<dialog>no</dialog>",
    "<div popover>no</div>",
    "<div hidden=until-found>no</div>",
    "<p style='content-visibility:hidden'>no</p>",
    "<p style='visibility:hidden'>no<b style='visibility:collapse'>no</b></p>",
    "<p style='font-size:0'>no<b>no</b><b style='font-size:80%'>no</b></p>",
    "<p style='opacity:0'>no</p>",
    "<p style='color:white'>no</p>",
    "<p style='color:rgb(255, 255, 255);background:#FFF'>no</p>",
    "<p style='transform:translateX(-9999px)'>no</p>",
    "<svg><text visibility=hidden>no</text><text display=none>no</text></svg>",
    "<p style='color:#fdfefd'>no</p>",
    "<p style='color:transparent'>no</p>",
    "<div style='max-height:0;overflow:hidden'>no<p>no</p></div>",
    "<p style='position:absolute;left:-9999px'>no</p>",
    "<p style='text-indent:-9999px'>no</p>",
    "<input style='display:none' value=no>",
    "<style>.x{display:none}</style><p class='a x'>no</p>",
    "<style>@media screen{#x{display:none}}</style><p id=x>no</p>",
    "<style>/* a */ div .x > b, i{display:none}</style><div><p class=x><b>no</b></p></div>",
    "<style>.x{display:none!important}</style><p class=x style='display:block'>no</p>",
    "<style>.sr{clip:rect(0,0,0,0)}</style><p class=sr>no</p>",
)


def test_what_is_hidden_is_not_read_and_its_amount_is_told():
    for html in HIDDEN:
        read = read_html(f"{html}<p>yes".encode())
        assert [section.text for section in read.sections] == ["yes"], html
        count = 2 * html.count(">no") + 2 * html.count("</b>no")
        assert read.left_out == ((f"Hidden text: {count} characters.",) if count else ()), html


SEEN = (
    "<p aria-hidden=true>yes",
    "<details><summary>yes</summary></details>",
    "<dialog open>yes</dialog>",
    "<p hidden style='display:block'>yes",
    "<p style='visibility:hidden'><b style='visibility:visible'>yes</b>",
    "<div style='font-size:0'><p style='font-size:14px'>yes</div>",
    "<div style='background:#000'><p style='color:#fff'>yes</div>",
    "<div style='background:url(x.png)'><p style='color:#fff'>yes</div>",
    "<table bgcolor=navy><tr><td><font color=white>yes</font></table>",
    "<table background=a.png bgcolor=white><tr><td style='color:#fff'>yes</table>",
    "<div><img src=a.png><p style='position:absolute;color:#fff'>yes</div>",
    "<link rel=stylesheet href=x.css><p style='color:#fff'>yes",
    "<p style='color:#fff'><a href=x>yes</a>",
    "<p style='color:var(--a);background:var(--a)'>yes",
    "<p style='opacity:0;animation:fade 1s'>yes",
    "<style media=print>p{display:none}</style><p>yes",
    "<style>@media (max-width:600px){p{display:none}} p:hover{display:none}</style><p>yes",
    "<style>.x{display:none}.x{display:block}</style><p class=x>yes",
)
CROSSED_OUT = (
    ("Price: <del>100 EUR</del> <ins>80 EUR</ins>", "Price: ~~100 EUR~~ 80 EUR"),
    ("<s> a <b>b</b> c </s>d<strike></strike>", "~~a b c~~ d"),
    ("<p style='text-decoration: red line-through'>a</p>b", "~~a~~\n\nb"),
    ("<style>.x i{text-decoration-line:line-through}</style><p class=x><i>a</i> b", "~~a~~ b"),
    ("<del><p>a</p><ul><li>b</ul></del>c", "~~a~~\n\n- ~~b~~\n\nc"),
    ("<table><tr><td><s>1</s><td>2</table>", "~~1~~ | 2"),
    ("<pre><del>a\n b</del></pre>", "~~a\n b~~"),
    ("<del style='text-decoration:none'>a</del>", "a"),
    ("10<sup><s>6</s></sup>", "10~~⁶~~"),
)


def test_what_is_seen_is_read_and_what_is_crossed_out_is_marked():
    for html, text in (*((html, "yes") for html in SEEN), *CROSSED_OUT):
        assert text_of(html) == text, html


def test_styles_beside_the_page():
    html = "<link rel=stylesheet href=a.css><p class=x>no</p><p class=y>a</p>yes"
    assert text_of(html, ".x{display:none}", ".y{text-decoration:line-through}") == "~~a~~\n\nyes"


def test_what_a_tag_raises_no_style_sheet_lowers():
    text, shown = "<p>1,250<sup>2</sup>, 10<sup>6</sup>, H<sub>2</sub>O", "1,250², 10⁶, H₂O"
    for said in ("baseline;top:-.5em", "top", "text-top", ".4em", "5px", "inherit;font:inherit"):
        page = f"<style>sub,sup,*{{position:relative;vertical-align:{said}}}</style>{text}"
        assert text_of(page) == shown
    for style, shown in (
        ("vertical-align:5px", "10⁶"),
        ("vertical-align:top;font-size:60%", "10⁶"),
        ("position:relative;top:-.4em;font-size:.6em", "10⁶"),
        ("vertical-align:-.3em", "10₆"),
        ("vertical-align:baseline", "106"),
        ("vertical-align:top", "106"),
    ):
        span, cell = (f"<{tag} style='{style}'>6</{tag}>" for tag in ("span", "td"))
        assert text_of(f"10{span}<table>{cell}</table>") == f"{shown}\n\n6"


def test_odd_styles_take_no_time():
    for piece in ("<style>", "a{", "/*", "@x{", "@media screen{", "}", "a,"):
        assert text_of(f"<p>a</p><style>{piece * 20_000}") == "a"
