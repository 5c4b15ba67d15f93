"""The required form of a chat's answer: `response_format`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from engine.request import Grammar
from engine.server.bodies import Body
from engine.server.forms import OBJECT, schema_form


class NamedSchema(Body):
    name: str = ""
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool = False


class TextForm(Body):
    type: Literal["text"]


class ObjectForm(Body):
    """An object. Some servers take its schema here."""

    type: Literal["json_object"]
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None


class SchemaForm(Body):
    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[TextForm | ObjectForm | SchemaForm, Field(discriminator="type")]


def grammar_of(form: ResponseFormat | None) -> Grammar | None:
    """The grammar of the answer; None for free text. Raises Refusal."""
    match form:
        case SchemaForm(json_schema=named):
            param = "response_format.json_schema.schema"
            return schema_form(named.schema_, param, strict=named.strict)
        case ObjectForm():
            schema = OBJECT if form.schema_ is None else form.schema_
            return schema_form(schema, "response_format.schema", strict=False)
        case _:
            return None
