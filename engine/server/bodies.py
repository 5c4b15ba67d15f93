"""Reads and checks the JSON bodies of requests. Knows no dialect.

The checks here apply to every endpoint; the models of a dialect say what a field may hold. A field
that a model does not have is ignored, unless `engine.server.wishes` names it; `null` is the same
as a missing field, and so is an empty value of another kind, such as PHP's `[]` in place of an
object. The history (`Past`) is never refused.
"""

import json
import math
import re
from contextlib import suppress
from typing import Annotated, Any, ClassVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from engine.server.errors import Refusal, invalid
from engine.server.wishes import NOTHING, check_wishes, flag_in

DEEPEST = 100
_HALVES = re.compile("[\ud800-\udfff]")


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""Accepts 1.0 as 1: JSON has one kind of numbers. Write it after a field's limits."""


def _limit(value: Any) -> Any:
    value = _whole(value)
    return None if isinstance(value, int) and value < 0 else value


Limit = Annotated[int | None, Field(ge=1), BeforeValidator(_limit)]
"""The most tokens that an answer may have; below 0 nothing limits it."""


def named(*names: str, default: Any = None) -> Any:
    """A field that may be missing, with the names that clients have for it, ours first."""
    return Field(default, validation_alias=AliasChoices(*names))


class Body(BaseModel):
    """An object in a body. Values are not converted: "1" is not a number. Only a boolean may be a
    word, as "false".

    `FORM`: the field of a request that holds the form of an answer, or "".
    """

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)
    FORM: ClassVar[str] = ""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: item for name, item in value.items() if item is not None}

    @field_validator("*", mode="wrap")
    @classmethod
    def _not_judged(
        cls, value: Any, held: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        try:
            return held(value)
        except ValidationError:
            if (flag := flag_in(value)) is not None:
                with suppress(ValidationError):
                    return held(flag)
            field = cls.model_fields[info.field_name or ""]
            if field.is_required():
                raise
            return cls._instead(value, field.get_default(call_default_factory=True), held)

    @classmethod
    def _instead(cls, value: Any, default: Any, held: ValidatorFunctionWrapHandler) -> Any:
        """Return the value in place of one of a wrong type. Raises ValidationError."""
        return default if value in NOTHING else held(value)


class Past(Body):
    """An object in the history, which an SDK or a model may have damaged. A value of a wrong type
    becomes a text if its field is a text; otherwise the field gets its default."""

    @model_validator(mode="before")
    @classmethod
    def _object(cls, value: Any) -> Any:
        return value if isinstance(value, dict | cls) else {"content": value}

    @classmethod
    def _instead(cls, value: Any, default: Any, held: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(default, list) and isinstance(value, dict):  # one alone, or a list of PHP
            return held([*value.values()] if all(map(str.isdigit, value)) else [value])
        return as_text(value) if isinstance(default, str) else default


def as_text(value: Any) -> str:
    """Return a JSON value as a text: a text as it is, "" for null, otherwise its JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def has_halves(source: str) -> bool:
    """Return whether a JSON text may have half a character, which only an escape can express."""
    return "\\ud" in source or "\\uD" in source


def _float(digits: str) -> float | str:
    return number if math.isfinite(number := float(digits)) else digits


def loads(source: str) -> Any:
    """Parse a JSON text, with U+FFFD in place of each half of a character. NaN and Infinity, which
    are not JSON, and numbers like 1e999, become texts: a history may have them. Raises ValueError
    or RecursionError."""
    value = json.loads(source, parse_constant=str, parse_float=_float)
    if has_halves(source):
        value = json.loads(_HALVES.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    return value


def read_json(body: bytes) -> Any:
    """Parse a body. Raises Refusal."""
    try:
        value = loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _not_json("it is not UTF-8") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise _not_json(str(error)) from None
    _check(value)
    return value


def read_body[B: Body](kind: type[B], value: Any) -> B:
    """Validate a body's JSON value as `kind`. Raises a Refusal that names the wrong field."""
    if not isinstance(value, dict):
        raise invalid("The body is not a JSON object.")
    if kind.FORM:
        check_wishes(value, names_of(kind), kind.FORM)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise _of_field(error, value) from None


def names_of(kind: type[Body]) -> set[str]:
    """Return the names of a body's fields, with all that clients use."""
    found = set[str]()
    for name, field in kind.model_fields.items():
        alias = field.validation_alias or name
        names = alias.choices if isinstance(alias, AliasChoices) else [alias]
        found.update(name for name in names if isinstance(name, str))
    return found


def _check(value: Any) -> None:
    """Check all values, level by level, so that no depth overflows the stack."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise _too_deep()
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
        level = below


def _not_json(reason: str) -> Refusal:
    return invalid(f"The body is not JSON: {reason}.", code="invalid_json")


def _too_deep() -> Refusal:
    return invalid(f"The body is nested deeper than {DEEPEST} levels.", code="invalid_json")


def _of_field(error: ValidationError, body: Any) -> Refusal:
    """Make the refusal for a field, with pydantic's complaint.

    If a value may be one of several kinds, pydantic complains about each; the deepest complaint is
    about the kind that the client meant, and of equally deep ones that which is not about the kind.
    """
    complaints = error.errors(include_url=False, include_input=False)
    paths = [_path(complaint, body) for complaint in complaints]
    path, complaint = max(
        zip(paths, complaints, strict=True),
        key=lambda pair: (len(pair[0]), not pair[1]["type"].endswith("_type")),
    )
    param = ""
    for part in path:
        param += f"[{part}]" if isinstance(part, int) else f".{part}" if param else part
    if complaint["type"] == "none_required":
        return invalid(f"{param} is not supported.", param, "unsupported_parameter")
    if complaint["type"] == "union_tag_invalid":
        kind, known = complaint["ctx"]["tag"], complaint["ctx"]["expected_tags"]
        return invalid(f"{param}: {kind!r} is not supported. Supported: {known}.", param or None)
    message = complaint["msg"].removeprefix("Value error, ").replace(" after validation", "")
    if complaint["type"] in ("dict_type", "model_type", "model_attributes_type"):
        message = "Input should be a JSON object"
    missing = complaint["type"] == "missing"
    code = "missing_required_parameter" if missing else "invalid_value"
    return invalid(f"{param}: {message}." if param else f"{message}.", param or None, code)


def _path(complaint: ErrorDetails, body: Any) -> list[int | str]:
    """The path of a complaint in the body. Pydantic's path also has names of kinds: skip them."""
    missing = complaint["type"] == "missing"  # the last name is not in the body, or null
    names = complaint["loc"][:-1] if missing else complaint["loc"]
    path: list[int | str] = []
    value = body
    for name in names:
        try:
            value = value[name]
        except (KeyError, IndexError, TypeError):
            continue
        path.append(name)
    if missing:
        return [*path, complaint["loc"][-1]]
    discriminator = complaint.get("ctx", {}).get("discriminator", "")  # a field, or our function
    return [*path, discriminator.strip("'")] if discriminator.startswith("'") else path
