"""A person, of whom programs with pydantic ask for an object."""

from pydantic import BaseModel, Field


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=12)
    age: int
