"""Formulas of web pages and of Word documents, as lines of text."""

from engine.documents.web import read_page
from engine.documents.word import read_docx
from tests.support.documents.office import docx, paragraph, run


def tags(name, *parts):
    return f"<{name}>{''.join(parts)}</{name}>"


OF_PAGES = (
    ("<mfrac><mn>1</mn><mn>2</mn></mfrac>", "½"),
    ("<mn>1</mn><mfrac><mn>3</mn><mn>4</mn></mfrac>", "1¾"),
    ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>", "(a+b)/2"),
    ("<mfrac linethickness=0><mi>n</mi><mi>k</mi></mfrac>", "(n over k)"),
    ("<msup><mn>10</mn><mrow><mo>-</mo><mn>6</mn></mrow></msup>", "10⁻⁶"),
    ("<msup><mi>e</mi><mfrac><mi>a</mi><mi>b</mi></mfrac></msup>", "e^(a/b)"),
    ("<msub><mi>x</mi><mn>1</mn></msub><mo>=</mo><mn>5</mn>", "x₁ = 5"),
    ("<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>", "x₁²"),
    ("<msqrt><mi>a</mi><mo>+</mo><mi>b</mi></msqrt>", "√(a+b)"),
    ("<mroot><mn>27</mn><mn>3</mn></mroot>", "³√27"),
    ("<mn>0.</mn><mover><mn>3</mn><mo>¯</mo></mover>", "0.3\u0305"),
    ("<munderover><mo>∑</mo><mn>1</mn><mi>n</mi></munderover>", "∑₁ⁿ"),
    (
        "<mmultiscripts><mi>U</mi><mn>3</mn><none/><mprescripts/><mn>92</mn><mn>238</mn>"
        "</mmultiscripts>",
        "₉₂²³⁸U₃",
    ),
    (
        "<mtable><mtr><mtd>1</mtd><mtd>2</mtd></mtr><mtr><mtd>3</mtd><mtd>4</mtd></mtr></mtable>",
        "((1, 2); (3, 4))",
    ),
    ("<mn>5</mn><mphantom><mn>0</mn></mphantom>", "5"),
    ("<menclose notation=updiagonalstrike><mn>5</mn></menclose><mn>4</mn>", "~~5~~4"),
    ("<mn>1</mn><annotation>no</annotation>", "1"),
)


def test_of_web_pages():
    for formula, text in OF_PAGES:
        (part,) = read_page(f"<p>about <math>{formula}</math> metres").parts
        assert part.text == f"about {text} metres"


def test_a_formula_completes_no_number_and_ends_with_its_paragraph():
    for html, text in (
        ("1<math><mfrac><mn>5</mn><mn>16</mn></mfrac></math>", "1 5/16"),
        ("<p><math><mn>1</mn><p>a</p><p>b</p>", "1\n\na\n\nb"),
        ("<math>" + "<mrow>" * 600 + "x", "x"),
        ("<m:math><m:mfrac><m:mn>1</m:mn><m:mn>2</m:mn></m:mfrac></m:math> l", "½ l"),
        ("10<sup>6,5</sup> log<sub>2</sub>8 x<sub>max</sub>", "10^(6,5) log₂8 xmax"),
        ("10<sup>-a</sup> 10<sup>½</sup> 4<sup>th</sup>", "10^(-a) 10^½ 4th"),
        ("10<span style='vertical-align:super'>6</span>, x<sub>1<sup>2</sup></sub>", "10⁶, x_1²"),
    ):
        assert [part.text for part in read_page(html).parts] == [text]


def test_a_formula_and_its_copy_are_read_once():
    power = "<math><msup><mn>10</mn><mn>6</mn></msup></math>"
    katex = "<style>.katex-mathml{clip:rect(1px,1px,1px,1px)}</style><i class=katex-mathml>"
    copy = "aria-hidden=true>10<b>6</b>"
    alt = "class=mwe-math-fallback-image-inline alt='10^{6}'>"
    for html, text in (
        (f"{katex}{power}</i><i class=katex-html {copy}</i> l", "10⁶ l"),
        (f"<i class=katex-html {copy}</i> l", "106 l"),
        (f"<mjx-math {copy}</mjx-math><mjx-assistive-mml>{power}</mjx-assistive-mml> l", "10⁶ l"),
        (f"<nobr {copy}</nobr><i class=MJX_Assistive_MathML>{power}</i> l", "10⁶ l"),
        (f"<i class=mwe-math-mathml-a11y style='display:none'>{power}</i><img {alt} l", "10⁶ l"),
        (f"<img {alt} l", "10^{6} l"),
        ("12<img alt='a picture'>34", "12 34"),
    ):
        page = read_page(html)
        assert ([part.text for part in page.parts], page.unseen) == ([text], 0)


def test_of_word():
    def of(text):
        return tags("m:r", tags("m:t", text))

    for formula, text in (
        (tags("m:f", tags("m:num", of("5")), tags("m:den", of("16"))), "1 5/16"),
        (tags("m:f", tags("m:num", of("1")), tags("m:den", of("2"))), "1½"),
        (tags("m:sSup", tags("m:e", of("0")), tags("m:sup", of("6"))), "1 0⁶"),
        (tags("m:rad", tags("m:deg"), tags("m:e", of("16"))), "1√16"),
        (tags("m:nary", *(tags(f"m:{each}", of("n")) for each in ("sub", "sup", "e"))), "1∫ₙⁿ n"),
        (tags("m:d", '<m:dPr><m:begChr m:val="["/></m:dPr>', tags("m:e", of("a"))), "1[a)"),
    ):
        for written in (
            f"<m:oMath>{formula}</m:oMath>",
            f"<m:oMathPara><m:oMath>{formula}</m:oMath></m:oMathPara>",
        ):
            read = read_docx(docx(paragraph(run("Take 1") + written + run(" cups"))))
            assert [section.text for section in read.sections] == [f"Take {text} cups"]
            assert read.left_out == ()
