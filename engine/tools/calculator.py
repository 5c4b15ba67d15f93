"""Arithmetic as people write it, exact where numbers are rational. Knows no Python but its syntax
of expressions, and gives up before a number gets too long."""

import ast
import math
import operator
import re
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from fractions import Fraction
from typing import Any

from models.errors import Problem

_LONGEST = 500  # characters of an expression
_MOST_BITS = 40_000  # of a number: twelve thousand digits
_MOST_PLACES = 1_000  # to which a number is rounded
_WORKING = Context(prec=50, Emax=13_000, Emin=-13_000)  # room for as many bits
_SHOWN = Context(prec=30)  # of a number that is not exact
_WRITTEN = str.maketrans("×·÷\N{MINUS SIGN}–", "**/--", "$€£") | {ord("^"): "**"}
_OF_SEVERAL = re.compile(r"(?:max|min|round|sum)\s*\(")  # where a comma is between two numbers
_IN_THREES = re.compile(r"(?<![\w.,])\d{1,3}([,'\u2019\xa0\u202f])\d{3}(?:\1\d{3})*(?![\w,])")
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


def calculate(expression: str) -> str:
    """The value of an expression: "7", "0.125", "≈ 0.333…". Raises `Problem`."""
    if len(expression) > _LONGEST:
        raise Problem("The expression is too long.", f"Write at most {_LONGEST} characters.")
    text = expression.strip().translate(_WRITTEN)
    if not _OF_SEVERAL.search(text):
        text = _IN_THREES.sub(lambda number: number[0].replace(number[1], ""), text)
    try:
        with localcontext(_WORKING) as context:
            value = _value(ast.parse(text, mode="eval").body, text)
            number = Decimal(int(value)) if value.denominator == 1 else _decimal(value)
    except ZeroDivisionError:
        raise Problem("It divides by zero.", "Change the expression.") from None
    except (SyntaxError, LookupError, TypeError, ValueError, RecursionError, InvalidOperation):
        raise Problem("This is not arithmetic.", "Write it as 2 * (3 + 4) ** 2.") from None
    except (ArithmeticError, MemoryError):
        raise Problem("A number in it gets too large.", "Use smaller numbers.") from None
    if not context.flags[Inexact]:  # nothing was rounded
        return f"{number:f}"
    number = number.normalize(_SHOWN)
    return f"≈ {number:f}" if -20 < number.adjusted() < 40 else f"≈ {number}"


def _value(node: ast.expr, text: str) -> Fraction:
    """The value of a part of an expression, whose whole text this is."""
    value: Fraction | int
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            pass
        case ast.Constant(value=float()):  # rounded, as the text is not
            value = Fraction(+Decimal(ast.get_source_segment(text, node) or ""))
        case ast.Name(id="pi"):
            value = Fraction(+_PI)
        case ast.UnaryOp(op=op, operand=inside):
            value = _OPERATORS[type(op)](_value(inside, text))
        case ast.BinOp(left=left, op=op, right=right):
            value = _OPERATORS[type(op)](_value(left, text), _value(right, text))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            value = _FUNCTIONS[name](*(_value(each, text) for each in arguments))
        case _:
            raise SyntaxError
    if _bits(value) > _MOST_BITS:
        raise OverflowError
    return Fraction(value)


def _bits(value: Fraction | int) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / value.denominator


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent == Fraction(1, 2):
        return _root(base)
    if exponent.denominator != 1:
        return Fraction(_decimal(base) ** _decimal(exponent))
    if abs(base) != 1 and _bits(base) * abs(exponent) > _MOST_BITS:
        raise OverflowError
    return base ** int(exponent)


def _root(value: Fraction) -> Fraction:
    """The square root, exact where it is rational."""
    return Fraction(Decimal(value.numerator).sqrt()) / Fraction(Decimal(value.denominator).sqrt())


def _round(value: Fraction, places: Fraction = Fraction(0)) -> Fraction:
    """Round half away from zero, as people do and Python does not."""
    if places.denominator != 1 or abs(places) > _MOST_PLACES:
        raise ValueError
    unit = Fraction(10) ** -int(places)
    return math.floor(abs(value) / unit + Fraction(1, 2)) * unit * (-1 if value < 0 else 1)


_OPERATORS: dict[type[ast.operator | ast.unaryop], Callable[..., Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "round": _round,
    "sqrt": _root,
    "sum": lambda *values: sum(values),
}
