"""Arithmetic as people write it, exact where numbers are rational. Knows no Python but its syntax
of expressions, and gives up before a number gets too long."""

import ast
import math
from decimal import Context, Decimal, DecimalException, localcontext
from fractions import Fraction

from models.errors import Problem

_LONGEST = 500  # characters of an expression
_MOST_BITS = 40_000  # of a number: twelve thousand digits
_DIGITS = 30  # of a number that is not exact
_WORKING = Context(prec=50, Emax=999_999, Emin=-999_999)
_WRITTEN = str.maketrans({"×": "*", "·": "*", "÷": "/", "\N{MINUS SIGN}": "-", "–": "-", "^": "**"})
_PI = Fraction("3.14159265358979323846264338327950288419716939937510")


def calculate(expression: str) -> str:
    """The value of an expression: "7", "0.125", "≈ 0.333…". Raises `Problem`."""
    if len(expression) > _LONGEST:
        raise Problem("The expression is too long.", f"Write at most {_LONGEST} characters.")
    try:
        tree = ast.parse(expression.strip().translate(_WRITTEN), mode="eval")
        with localcontext(_WORKING):
            return _Calculation().written(tree.body)
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        raise Problem("This is no arithmetic.", "Write it as 2 * (3 + 4) ** 2.") from None
    except ZeroDivisionError:
        raise Problem("It divides by zero.", "Change the expression.") from None
    except (OverflowError, DecimalException):
        raise _too_large() from None


def _too_large() -> Problem:
    return Problem("A number in it gets too large.", "Use smaller numbers.")


class _Calculation:
    """Attribute: `exact`, whether nothing was rounded so far."""

    def __init__(self) -> None:
        self.exact = True

    def written(self, node: ast.expr) -> str:
        value = self._value(node)
        if value.denominator == 1 and self.exact:
            return _integer(value.numerator)
        rest = value.denominator
        for prime in (2, 5):
            while rest % prime == 0:
                rest //= prime
        number = Decimal(value.numerator) / Decimal(value.denominator)
        if rest == 1 and self.exact and Fraction(number) == value:
            return f"{number.normalize():f}"
        rounded = Context(prec=_DIGITS).create_decimal(number).normalize()
        return f"≈ {rounded:f}" if -20 < rounded.adjusted() < 40 else f"≈ {rounded}"

    def _value(self, node: ast.expr) -> Fraction:
        value = self._found(node)
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
            raise _too_large()
        return value

    def _found(self, node: ast.expr) -> Fraction:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return Fraction(repr(number))
            case ast.Name(id="pi"):
                self.exact = False
                return _PI
            case ast.UnaryOp(op=ast.USub(), operand=inside):
                return -self._value(inside)
            case ast.UnaryOp(op=ast.UAdd(), operand=inside):
                return self._value(inside)
            case ast.BinOp(left=left, op=op, right=right):
                return self._joined(self._value(left), op, self._value(right))
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._called(name, [self._value(each) for each in arguments])
        raise SyntaxError

    def _joined(self, left: Fraction, op: ast.operator, right: Fraction) -> Fraction:
        match op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div():
                return left / right
            case ast.FloorDiv():
                return Fraction(left // right)
            case ast.Mod():
                return left % right
            case ast.Pow():
                return self._power(left, right)
        raise SyntaxError

    def _power(self, base: Fraction, exponent: Fraction) -> Fraction:
        if exponent.denominator == 1:
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if abs(base) != 1 and bits * abs(exponent) > _MOST_BITS:
                raise _too_large()
            return Fraction(base ** int(exponent))
        if base < 0:
            raise SyntaxError
        if exponent == Fraction(1, 2):
            return self._root(base)
        return self._rounded(_decimal(base) ** _decimal(exponent))

    def _root(self, value: Fraction) -> Fraction:
        parts = [math.isqrt(value.numerator), math.isqrt(value.denominator)]
        if parts[0] ** 2 == value.numerator and parts[1] ** 2 == value.denominator:
            return Fraction(*parts)
        return self._rounded(_decimal(value).sqrt())

    def _rounded(self, value: Decimal) -> Fraction:
        self.exact = False
        return Fraction(value)

    def _called(self, name: str, values: list[Fraction]) -> Fraction:
        match name, values:
            case "abs", [value]:
                return abs(value)
            case "floor", [value]:
                return Fraction(math.floor(value))
            case "ceil", [value]:
                return Fraction(math.ceil(value))
            case "round", [value]:
                return Fraction(round(value))
            case "round", [value, places] if places.denominator == 1 and abs(places) <= 1000:
                return round(value, int(places))
            case "min", [_, *_]:
                return min(values)
            case "max", [_, *_]:
                return max(values)
            case "sum", _:
                return sum(values, Fraction(0))
            case "sqrt", [value]:
                return self._root(value)
        raise SyntaxError


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _integer(value: int) -> str:
    """An integer in digits: Python refuses those of more than 4,300 at once."""
    sign, value, pieces = "-" if value < 0 else "", abs(value), []
    while value >= 10**4000:
        value, rest = divmod(value, 10**4000)
        pieces.append(f"{rest:04000d}")
    return sign + str(value) + "".join(reversed(pieces))
