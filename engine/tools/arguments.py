"""Checks the arguments of a call by the JSON schema of its tool, which comes from a server."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend, validator_for
from referencing.jsonschema import EMPTY_REGISTRY

from models.in_words import one_line

_MOST_REFERENCES = 10_000  # that are followed to check one call
_LEFT_OUT = ("pattern", "patternProperties", "unevaluatedProperties", "format", "$dynamicRef")


def mistake_in(arguments: str, schema: Mapping[str, Any]) -> str:
    """Why these arguments, the JSON text of an object, do not fit a schema, in a line; "" if they
    do.

    The server has the last word: patterns, which may take endlessly long, and invalid schemas are
    left to it.
    """
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return "they are not JSON"
    if not isinstance(value, dict):
        return "they are not a JSON object"
    try:
        kind = validator_for(schema, default=Draft202012Validator)
        checked = extend(kind, _checks(kind))
        error = best_match(checked(schema, registry=EMPTY_REGISTRY).iter_errors(value))
    except Exception:  # the server's fault: the schema is none, refers elsewhere or is endless
        return ""
    if error is None:
        return ""
    place = error.json_path.removeprefix("$.").removeprefix("$")
    return one_line(f"{place + ': ' if place else ''}{error.message}")[:300].rstrip(".")


def _checks(kind: Any) -> dict[str, Callable[..., Iterator[ValidationError]]]:
    """The checks that replace a draft's own: without patterns, and with an end."""
    left = _MOST_REFERENCES
    followed, additional = (kind.VALIDATORS.get(key) for key in ("$ref", "additionalProperties"))

    def follow(validator: Any, reference: Any, value: Any, schema: Any) -> Iterator[Any]:
        nonlocal left
        left -= 1
        if left < 0:
            raise RecursionError
        yield from followed(validator, reference, value, schema) or ()

    def without_patterns(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        if "patternProperties" not in schema:
            yield from additional(validator, wanted, value, schema) or ()

    def nothing(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        return iter(())

    own = dict.fromkeys(_LEFT_OUT, nothing)
    return {**own, "$ref": follow, "additionalProperties": without_patterns}
