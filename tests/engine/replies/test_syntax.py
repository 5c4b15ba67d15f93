"""Which syntax the marks in a template show; where two families share marks, and where none is."""

from engine.replies.syntax import REASONING, syntax_of

QWEN = '<tool_call>\n{"name": <name>, "arguments": <object>}\n</tool_call>'


def test_the_template_shows_the_family():
    for template, family in (
        ("{{ messages }}", "hermes"),  # and it is told of tools as Hermes is
        ("{{ messages }}{{ tools }}", "none"),
        (QWEN, "hermes"),
        ("<|start_header_id|>" + QWEN + "tool_calls", "hermes"),
        ("<tool_call>\n<function=example>", "qwen xml"),
        ('<|start_header_id|>{% if m.tool_calls %}{"name": "", "parameters": {}}', "llama"),
        ("<|start_header_id|>{{ m.content }}", "hermes"),
        ("{{ tools }}<minimax:tool_call><invoke name=", "minimax"),
        ("{{ tools }}<|tool_call|>[", "granite"),
        ("<|tool_calls_section_begin|><|tool_call_begin|>", "kimi"),
        ("{{ tools }}<run>{{ name }}", "none"),
        ("[TOOL_CALLS] [", "mistral"),
        ("[TOOL_CALLS]{{ name }}[ARGS]", "mistral args"),
        ("List of tools: <|tool_list_start|>", "lfm"),
    ):
        assert syntax_of(template, knows_tools=family != "hermes").family == family


def test_the_tokenizer_shows_what_the_template_does_not():
    tokens = ["<|tool_call_start|>", "<|tool_call_end|>", "<think>", "</think>"]
    syntax = syntax_of("{{ messages }}", tokens=tokens, special=tokens[:2])
    assert syntax.family == "lfm"
    assert syntax.reasoning == REASONING[0]
    assert syntax.special == ("<|tool_call_end|>", "<|tool_call_start|>")


def test_where_a_reply_begins():
    for marks in REASONING:
        syntax = syntax_of(f"{marks.opening}{{{{ reasoning }}}}{marks.closing}")
        assert syntax.reasoning == marks
        assert syntax.begins_inside(f"<user>why?<assistant>{marks.opening}\n")
        assert not syntax.begins_inside(f"{marks.opening}<assistant>")
        assert syntax.reasoning_is_over(f"<assistant>{marks.opening}\n\n{marks.closing}\n\n")
        assert not syntax.reasoning_is_over("<assistant>")
