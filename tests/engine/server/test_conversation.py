"""Conversations that templates would refuse."""

from engine.request import ChatMessage, ToolCall
from engine.server.conversation import arguments_of, in_order

CALL = ToolCall("call_1", "read", "{}")


def test_what_is_in_order_stays_as_it_is() -> None:
    messages = (
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "Hi"),
        ChatMessage("assistant", "", tool_calls=(CALL,)),
        ChatMessage("tool", "text", tool_call_id="call_1", name="read"),
        ChatMessage("assistant", "Done."),
        ChatMessage("user", "Thanks"),
    )
    assert in_order(messages) == messages


def test_the_parts_of_a_reply_become_one() -> None:
    messages = [
        ChatMessage("system", "a"),
        ChatMessage("system", ""),
        ChatMessage("system", "b"),
        ChatMessage("user", "c"),
        ChatMessage("user", "d"),
        ChatMessage("assistant", "", reasoning="Hm."),
        ChatMessage("assistant", "e"),
        ChatMessage("assistant", "", tool_calls=(CALL,)),
    ]
    reply = ChatMessage("assistant", "e", reasoning="Hm.", tool_calls=(CALL,))
    assert in_order(messages) == (*messages[:5], reply)


def test_calls_and_results_without_ids_get_them() -> None:
    calls = (ToolCall("", "read", "{}"), ToolCall("", "write", "{}"), ToolCall("", "read", "{}"))
    named, last, second = in_order(
        [
            ChatMessage("assistant", "", tool_calls=calls),
            ChatMessage("tool", "b", name="write"),
            ChatMessage("tool", "a"),
            ChatMessage("tool", "c"),
        ]
    )[1:]
    said = in_order([ChatMessage("assistant", "", tool_calls=calls)])[0].tool_calls
    ids = [call.id for call in said]
    assert len({*ids}) == 3
    assert [named.tool_call_id, last.tool_call_id, second.tool_call_id] == [ids[1], ids[0], ids[2]]
    assert [named.name, last.name, second.name] == ["write", "read", "read"]


def test_arguments_are_an_object_whatever_a_model_wrote() -> None:
    for value, text in (
        ('{"a": 1}', '{"a": 1}'),
        ({"a": "ä"}, '{"a": "ä"}'),
        ("", "{}"),
        (None, "{}"),
        ('{"a": ', '{"arguments": "{\\"a\\": "}'),
        ("[1]", '{"arguments": "[1]"}'),
        ([1], '{"arguments": [1]}'),
    ):
        assert arguments_of(value) == text


def test_results_of_several_calls_stay_apart() -> None:
    calls = (CALL, ToolCall("call_2", "write", "{}"))
    messages = [
        ChatMessage("assistant", "", tool_calls=calls),
        ChatMessage("tool", "one", tool_call_id="call_1"),
        ChatMessage("tool", "two", tool_call_id="call_2"),
    ]
    named = [(message.content, message.name) for message in in_order(messages)[1:]]
    assert named == [("one", "read"), ("two", "write")]


def test_a_late_system_message_stays_where_it_is() -> None:
    # In front, it would void the cache of everything behind it.
    front = [ChatMessage("system", "a"), ChatMessage("user", "b")]
    late = ChatMessage("system", "late")
    assert in_order([*front, late]) == (front[0], ChatMessage("user", "b\n\nlate"))
    said = [*front, ChatMessage("assistant", "c")]
    assert in_order([*said, late]) == (*said, ChatMessage("user", "late"))
    called = [*said, ChatMessage("tool", "d", tool_call_id="x")]
    assert in_order([*called, late])[-1] == ChatMessage("tool", "d\n\nlate", tool_call_id="x")
