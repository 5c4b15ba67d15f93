"""What the server reads of a model's files."""

import asyncio
import json

from engine.replies.families import CallRow, FamilyRow
from engine.server.target import TargetFiles

TEMPLATE = "{{ tools }}<tool_call>\n{'name': , 'arguments': }\n</tool_call>"


def test_marks_in_angle_brackets_are_special_to_a_grammar(tmp_path):
    """As tokenizers of Qwen2.5 and Qwen3 have them: added, and not marked as special."""
    added = [
        {"id": 7, "content": name, "special": special}
        for name, special in [("<tool_call>", False), ("</tool_call>", False), ("<end>", True)]
    ]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)

    texts = asyncio.run(TargetFiles().texts(str(tmp_path), knows_tools=True))

    assert texts.syntax.family == "hermes"
    assert texts.syntax.special == ("</tool_call>", "<tool_call>")


def test_the_marks_that_the_engine_found_serve_a_model_of_no_known_family(tmp_path):
    found = FamilyRow((CallRow("json", begin="<run>", named="<with>", end="</run>"),))
    (tmp_path / "chat_template.jinja").write_text("{{ tools }}{{ messages }}")
    files = TargetFiles()
    texts = asyncio.run(files.texts(str(tmp_path), knows_tools=True, found=found))
    assert texts.syntax.found == found
