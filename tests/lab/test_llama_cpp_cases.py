"""What is read of a file of llama.cpp's cases."""

from pathlib import Path

from tests.lab.llama_cpp_cases import cases_in

SOURCE = r"""
static common_chat_tool look_tool{ /* .name = */ "look", "Looks.", R"({"type": "object"})" };
const common_chat_msg message_call = simple_assist_msg("", "Hm.", "look", "{\"a\": 1}");
static void test() {
    const std::string call = "<call>" "look";
    auto tst = peg_tester("models/templates/One.jinja", debug);
    tst.test("Hm.</think>" + call).tools({ look_tool }).enable_thinking(false)
        .reasoning_format(COMMON_REASONING_FORMAT_AUTO).expect(message_call).run();
    tst.test("go on").continue_final_message(COMMON_CHAT_CONTINUATION_CONTENT).run();
    tst.test(unknown_function("a")).run();
    for (const char * path : { "models/templates/Two.jinja", "models/templates/Three.jinja" }) {
        auto other = peg_tester(path);
        other.test("Hello").is_partial(true).expect_content("Hel" R"(lo)").run();
    }
}
"""


def test_replies_with_what_they_are_read_as(tmp_path: Path) -> None:
    path = tmp_path / "test-chat.cpp"
    path.write_text(SOURCE)
    (one, two, three), left_out = cases_in(path)
    assert left_out == 1
    assert (one.template, one.reply) == ("One", "Hm.</think><call>look")
    assert (one.content, one.reasoning, one.calls) == ("", "Hm.", [("look", '{"a": 1}')])
    assert [tool.name for tool in one.tools] == ["look"]
    assert (one.thinks, one.whole, one.keeps_reasoning) == (False, True, False)
    assert (two.template, three.template, two.content) == ("Two", "Three", "Hello")
    assert (two.whole, two.keeps_reasoning) == (False, True)
