"""What servers send, made fit to be shown and read: bounded, and without hidden characters."""

import mcp_types as types
from hypothesis import given
from hypothesis import strategies as st

from engine.documents.hidden import hidden_places
from engine.tools.results import (
    LONGEST_RESULT_BYTES,
    MOST_TOOLS,
    offered,
    result_text,
    short,
    shown,
)

TOOLS = st.builds(
    lambda name, title, description, length: types.Tool(
        name=name, title=title, description=description, input_schema={"title": "x" * length}
    ),
    st.text(max_size=6),
    st.none() | st.text(max_size=300),
    st.none() | st.text(max_size=20) | st.just(9000).map("d".__mul__),
    st.sampled_from([1, 100_001]),
)


@given(st.lists(TOOLS, max_size=6))
def test_tools_have_names_of_their_own_and_bounded_texts(tools):
    found, left_out = offered("s", tools)
    assert len(found) + len(left_out) == len(tools)
    assert len({each.name for each in found}) == len(found)
    for each in found:
        assert each.name
        assert not hidden_places(each.name + each.title + each.description)
        assert "\n" not in each.name + each.title
        assert len(each.description) <= 8000
        assert len(each.schema) <= 100_000


def test_there_is_a_most_of_tools_and_of_their_texts_together():
    small = [types.Tool(name=f"t{n}", input_schema={}) for n in range(1000)]
    assert len(offered("s", small)[0]) == MOST_TOOLS
    large = [types.Tool(name=f"t{n}", input_schema={"x": "y" * 90_000}) for n in range(100)]
    assert 0 < len(offered("s", large)[0]) < 20


@given(st.lists(st.text(), max_size=5))
def test_a_result_is_its_texts_without_hidden_characters(texts):
    blocks = [types.TextContent(text=text) for text in texts]
    text, total = result_text(types.CallToolResult(content=blocks))
    assert not hidden_places(text)
    assert text
    assert total == sum(len(each.encode(errors="replace")) for each in texts)


def test_a_long_result_is_cut_between_characters_and_says_so():
    text, total = result_text(types.CallToolResult(content=[types.TextContent(text="xé" * 10**6)]))
    assert total == 3 * 10**6
    assert len(text.encode()) < LONGEST_RESULT_BYTES + 100
    assert text.endswith("[cut: the first 1.05 MB of 3.00 MB]")


def test_lone_surrogates_and_long_lines_do_no_harm():
    assert short("a\ud800\n b") == "a� b"
    assert len(shown("x" * 10**6)) == 8000
    block = types.ResourceLink(name="n" * 10**5, uri="u\n" * 10**5)
    assert len(result_text(types.CallToolResult(content=[block]))[0]) < 1000
