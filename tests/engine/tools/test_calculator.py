"""Arithmetic: exact, and never without a limit."""

import ast
from contextlib import suppress
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from engine.tools.calculator import calculate
from models.errors import Problem

NUMBERS = st.integers(0, 999).map(str) | st.decimals(0, 9, places=2).map(str)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inside: st.tuples(inside, st.sampled_from("+-*"), inside).map(
        lambda x: f"({''.join(x)})"
    ),
    max_leaves=8,
)


VALUES = {
    "2 * (3 + 4) ** 2": "98", "4711 * 1234": "5813374", "0.1 + 0.2": "0.3",
    "0.12345678901234567890 * 10": "1.234567890123456789", "1_000.5e3": "1000500", "1/8": "0.125",
    "1/3 + 2/3": "1", "2^10": "1024", "10**40": f"1{'0' * 40}", "3 × 4 ÷ 2": "6", "-7 // 2": "-4",
    "7 % 3": "1", "2 ** -2": "0.25",
    "123456789123456789 * 987654321": "121932631234567900112635269",
    "sqrt(16) + abs(-2) + max(1, 2, 3) + min(4)": "13", "sqrt(1/4) + (4/9) ** 0.5 * 3": "2.5",
    "floor(-0.5) + ceil(0.5) + sum(1, 2)": "3", "round(2/3, 3)": "0.667",
    "round(1250, -2)": "1300", "1,234*2 + -1,000,000.5": "-997532.5",
    "1'234 + 1\u202f000 + $2,000": "4234", "max(1,234)": "234",
    "round(2.5) + round(0.5) * 10": "13", "round(-2.5)": "-3", "round(1.005, 2)": "1.01",
    "1/3": "≈ 0.333333333333333333333333333333", "sqrt(2)": "≈ 1.41421356237309504880168872421",
    "sqrt(2) ** 2": "≈ 2", "pi": "≈ 3.14159265358979323846264338328",
    "2 ** 0.5": "≈ 1.41421356237309504880168872421",
    "pi * 10**50": "≈ 3.14159265358979323846264338328E+50",
}  # fmt: skip

REFUSED = (
    "9**9**9", "9**9**9**9", "2**-1000000", "10**12000", "2**(2**64)", "0.1**99999",
    "10**99999.5", "1e999999", "1e999999999", "(9**9999)*(9**9999)", "*".join(["(9**999)"] * 60),
    "round(1, 10**9)", "1/0", "0**-1", "5 % 0", "(-8)**0.5", "(-8)**0.3", "sqrt(-1)",
    "", " ", "(", "(" * 400, "1+" * 200, "1 2", "x", "a.b", "abs", "[1]*9",
    "'a'*9", "True", "None", "1j", "1 if 1 else 2", "lambda: 1", "(1,2)", "f'{1}'",
    "[1 for a in (1,)]", "1,23*2", "12,5*2", "1,2345", "1,234,56", "1,234'567",
    "__import__('os').system('x')", "print(1)", "pi(1)", "abs(x=1)", "abs(*(1,))", "abs()", "max()",
    "(1).real", "1 << 99999999", "~1", "1 < 2", "not 1", "x := 1", "1; 2", "\0", "1" * 501,
)  # fmt: skip


def test_values():
    assert {expression: calculate(expression) for expression in VALUES} == VALUES


def test_what_is_no_arithmetic_or_too_large_is_a_problem():
    accepted = {}
    for expression in REFUSED:
        with suppress(Problem):
            accepted[expression] = calculate(expression)
    assert not accepted


@given(EXPRESSIONS)
def test_sums_and_products_are_exact(expression):
    assert Fraction(calculate(expression)) == _value(ast.parse(expression, mode="eval").body)


def _value(node):
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
        return left * right
    assert isinstance(node, ast.Constant)
    return Fraction(str(node.value))
