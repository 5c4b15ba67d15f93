"""LaTeX as models write it: laid out, or known to be malformed."""

import json
from itertools import product
from typing import Any

from app.markdown.formula_layout import LONGEST, answer, lay_out

FORMULAS = [
    r"E = mc^2",
    r"\frac{-b \pm \sqrt{b^2 - 4ac}}{2a}",
    r"\sum_{i=1}^{n} i = \frac{n(n+1)}{2}",
    r"\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}",
    r"\lim_{x \to 0} \frac{\sin x}{x} = 1",
    r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}",
    r"\begin{bmatrix} 1 & 0 \\ 0 & 1 \end{bmatrix}",
    r"\begin{vmatrix} a & b \\ c & d \end{vmatrix} = ad - bc",
    r"\begin{smallmatrix} a & b \\ c & d \end{smallmatrix}",
    r"f(x) = \begin{cases} x^2 & \text{if } x \ge 0 \\ -x & \text{otherwise} \end{cases}",
    r"\begin{aligned} (a+b)^2 &= a^2 + 2ab + b^2 \\ &= (a+b)(a+b) \end{aligned}",
    r"\begin{align*} x &= 1 \\ y &= 2 \end{align*}",
    r"\begin{split} a &= b \\ &= c \end{split}",
    r"\begin{alignat}{2} x &= 1 \\ y &= 2 \end{alignat}",
    r"\begin{equation} x = 1 \tag{1} \end{equation}",
    r"\begin{gather} a \\ b \end{gather}",
    r"\begin{array}{c|c} a & b \\ \hline c & d \end{array}",
    r"\alpha, \beta, \Gamma, \Delta, \varepsilon, \vartheta, \phi, \varphi, \Omega",
    r"\hat{x}, \bar{y}, \vec{v}, \dot{q}, \ddot{q}, \tilde{z}, \overline{AB}, \underline{u}",
    r"\widehat{abc}, \widetilde{xyz}, \overrightarrow{AB}",
    r"\mathbf{F} = m\mathbf{a}, \boldsymbol{\mu}, \bm{x}",
    r"\nabla \cdot \mathbf{E} = \frac{\rho}{\varepsilon_0}",
    r"\nabla \times \mathbf{B} - \frac{1}{c^2}\frac{\partial \mathbf{E}}{\partial t} = 0",
    r"\mathbb{R}^n, \mathcal{L}, \mathfrak{g}, \mathrm{const}",
    r"P(A \mid B) = \frac{P(B \mid A)\,P(A)}{P(B)}",
    r"\binom{n}{k} = \frac{n!}{k!(n-k)!}",
    r"e^{i\pi} + 1 = 0",
    r"\sqrt[3]{x^3 + y^3}",
    r"\left\{ x \in \mathbb{R} \;\middle|\; x > 0 \right\}",
    r"\left[ \frac{a}{b} \right], \left\lfloor x \right\rfloor, \left\| v \right\|",
    r"\left. \frac{dy}{dx} \right|_{x=0}",
    r"\prod_{p} \frac{1}{1 - p^{-s}}",
    r"\iint_D f(x,y)\,dA, \oint_C \mathbf{F} \cdot d\mathbf{r}",
    r"\frac{\partial^2 u}{\partial t^2} = c^2 \nabla^2 u",
    r"\log_2 8 = 3, \ln e = 1, \sin^2\theta + \cos^2\theta = 1",
    r"\operatorname{argmax}_{\theta} \mathcal{L}(\theta), \arg\max_{x} f(x)",
    r"\min_{w} \frac{1}{n} \sum_{i=1}^n (y_i - w^\top x_i)^2 + \lambda \|w\|^2",
    r"\text{softmax}\left(\frac{QK^T}{\sqrt{d_k}}\right)V",
    r"A \cup B, A \cap B, A \subseteq B, x \in A, x \notin B, \emptyset, A \setminus B",
    r"\forall x \exists y : x < y \Rightarrow y > x, p \land q \lor \neg r \iff s",
    r"a \equiv b \pmod{n}, a \not= b, a \approx b \neq c \leq d \ll e \sim f \propto g",
    r"f: X \to Y, x \mapsto f(x), A \xrightarrow{k} B",
    r"\overbrace{a + b}^{n}, \underbrace{c + d}_{\text{long text}}",
    r"\mathrm{H_2O}, 2\,\mathrm{H_2} + \mathrm{O_2} \rightarrow 2\,\mathrm{H_2O}",
    r"\text{CO}_2 \rightleftharpoons \text{H}_2\text{CO}_3",
    r"\ce{CH4 + 2 O2 -> CO2 + 2 H2O}",
    r"\ce{SO4^{2-}, Na+, Fe^3+}",
    r"9.81\,\mathrm{m/s^2}, c = 3 \times 10^8\ \text{m/s}, 25^\circ\text{C}",
    r"100\%, \$5.00, 1{,}000",
    r"\boxed{x = \frac{1}{2}}",
    r"\color{red}{x}, \cancel{y}",
    r"\dots, \cdots, \vdots, \ddots",
    r"\dfrac{1}{2}, \tfrac{1}{2}, \displaystyle\sum_{k} k",
    r"x_{i,j}^{(k)}, x', x''",
    r"O(n \log n)",
    r"\langle \psi | \hat{H} | \psi \rangle, \hbar\omega",
    r"\stackrel{?}{=}, \overset{!}{=}, \underset{x}{\min}",
    r"\big( \Big( \bigg( x \bigg) \Big) \big)",
    r"\int\limits_0^1 x\,dx, \sum\nolimits_i x_i",
    r"\textbf{bold} \textit{it}, a\!b\:c\;d\quad e",
    r"x \in [0, 1), \quad \therefore a = b",
    r"\substack{a \\ b}, A \oplus B \otimes C",
]
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


def test_what_models_write_is_laid_out() -> None:
    for latex, display in (*product(FORMULAS, (True,)), *product(FORMULAS[::4], (False,))):
        made = lay_out(latex, display=display)
        assert made["width"] > 0, latex
        assert made["ascent"] + made["descent"] > 0, latex
        assert made["shapes"], latex
        for path, stroke, _ in made["shapes"]:
            assert path.startswith("M "), latex
            assert set("".join(path.split())) <= set("MLQCZ0123456789.-+e"), latex
            assert stroke >= 0, latex


def test_malformed_formulas_have_no_outlines() -> None:
    for latex in MALFORMED:
        asked = {"latex": latex, "display": True}
        assert json.loads(answer(json.dumps(asked))) == {**asked, "shapes": None}


def test_an_answer_says_what_was_asked() -> None:
    asked: dict[str, Any] = {"latex": "x", "display": False, "written": "$x$"}
    given = json.loads(answer(json.dumps(asked)))
    assert given.items() >= asked.items()
    assert given["shapes"]


def test_a_formula_within_a_line_is_lower_than_one_that_is_set_apart() -> None:
    latex = r"\sum_{i=1}^n \frac{1}{i}"
    inline, apart = lay_out(latex, display=False), lay_out(latex, display=True)
    assert inline["ascent"] + inline["descent"] < apart["ascent"] + apart["descent"]
