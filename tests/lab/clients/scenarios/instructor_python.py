"""instructor: objects out of answers, in each of its modes that a server has to help with."""

import instructor
import openai
from person import Person
from steps import BASE, MODEL, step

QUESTION = [{"role": "user", "content": "Ann is 30 years old. Who is that?"}]


def asking(mode):
    client = openai.OpenAI(base_url=BASE, api_key="x", max_retries=0, timeout=120)
    return instructor.from_openai(client, mode=mode).chat.completions


ABOUT_ANN = {
    "model": MODEL, "messages": QUESTION, "response_model": Person, "temperature": 0,
    "max_tokens": 80,
}  # fmt: skip

for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):

    @step(f"an object, by {mode.name}")
    def _(mode=mode):
        found = asking(mode).create(**ABOUT_ANN, max_retries=0)
        assert isinstance(found, Person), found


@step("an object that grows, by JSON_SCHEMA")
def _():
    *_, last = asking(instructor.Mode.JSON_SCHEMA).create_partial(**ABOUT_ANN)
    assert last.name is not None, last
    assert last.age is not None, last
