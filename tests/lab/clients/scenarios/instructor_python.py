"""instructor: objects out of answers, in each of its modes that a server has to help with."""

import instructor
import openai
from pydantic import BaseModel, Field
from steps import BASE, MODEL, step

QUESTION = [{"role": "user", "content": "Ann is 30 years old. Who is that?"}]


class Person(BaseModel):
    """A person."""

    name: str = Field(max_length=12)
    age: int


for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):

    @step(f"an object, by {mode.name}")
    def _(mode=mode):
        client = instructor.from_openai(
            openai.OpenAI(base_url=BASE, api_key="x", max_retries=0, timeout=120), mode=mode
        )
        found = client.chat.completions.create(
            model=MODEL,
            messages=QUESTION,
            response_model=Person,
            temperature=0,
            max_tokens=80,
            max_retries=0,
        )
        assert isinstance(found, Person), found


@step("an object that grows, by JSON_SCHEMA")
def _():
    client = instructor.from_openai(
        openai.OpenAI(base_url=BASE, api_key="x", max_retries=0, timeout=120),
        mode=instructor.Mode.JSON_SCHEMA,
    )
    grown = client.chat.completions.create_partial(
        model=MODEL, messages=QUESTION, response_model=Person, temperature=0, max_tokens=80
    )
    last = list(grown)[-1]
    assert last.name is not None, last
    assert last.age is not None, last
