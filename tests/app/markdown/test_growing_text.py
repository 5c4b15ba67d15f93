"""A growing text is what it would be if it had been added to at once."""

from hypothesis import given
from hypothesis import strategies as st

from app.markdown.growing_text import GrowingText


@given(st.text(), st.lists(st.one_of(st.none(), st.text())))
def test_it_is_the_sum_of_its_parts_whenever_it_is_read(
    begin: str, parts: list[str | None]
) -> None:
    growing, whole = GrowingText(begin), begin
    for part in parts:
        if part is None:
            assert str(growing) == whole
        else:
            growing.append(part)
            whole += part
    assert str(growing) == str(growing) == whole
