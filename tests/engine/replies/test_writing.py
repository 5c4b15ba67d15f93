"""A written call is read as what was written, in the notation of each family."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.replies.writing import write_call
from tests.engine.replies.reading import read
from tests.engine.replies.rendering import CASES, arguments_for, syntax_in


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(data=st.data())
def test_a_written_call_is_read(case, data):
    arguments = data.draw(arguments_for(case))
    text = write_call(case.family, "get_weather", arguments)
    found = read(syntax_in(case), [text], inside_reasoning=False)
    assert (found.calls, found.content) == ([("get_weather", arguments)], "")
