"""Pictures through the language of the engine's process: only their paths and digests travel."""

from dataclasses import replace

import pytest

from engine.events import Done, Failed, Prefill, Text
from engine.process.protocol import COMMANDS, Count, Counted, Generate, Load, Loaded, parse_command
from engine.request import Request, Sampling, chat
from tests.support.engine.hosted import hosted
from tests.support.engine.pictures import picture, said
from tests.support.engine.seeing_folders import write_seeing

pytestmark = pytest.mark.usefixtures("on_the_cpu")


def test_a_picture_is_seen_counted_and_missed(tmp_path):
    folder = write_seeing("gemma3", tmp_path / "model")
    shown = picture(tmp_path, 0)
    lost = replace(shown, path=str(tmp_path / "lost.png"), digest="0" * 64)
    request = Request(sampling=Sampling(), max_tokens=4)
    seen, missed = (chat([said("So?", each)]) for each in (shown, lost))
    sent = [
        Load("load", str(folder), drafter="lookup", draft_length="2", keep_bytes=0),
        Count("count", seen),
        Generate("see", "chat", seen, request),
        Generate("miss", "chat", missed, request),
        Generate("again", "chat", seen, request),
    ]
    lines = [COMMANDS.to_json(each).encode() for each in sent]
    assert all(len(line) < 2000 for line in lines)
    responses = hosted([parse_command(line) for line in lines])
    (loaded,) = [each for each in responses if isinstance(each, Loaded)]
    assert loaded.sees
    (counted,) = [each for each in responses if isinstance(each, Counted)]
    read = [each for each in responses if isinstance(each, Prefill) and each.generation == "see"]
    assert counted.tokens == read[-1].total > 9
    failed = [each for each in responses if isinstance(each, Failed)]
    assert [each.generation for each in failed] == ["miss"]
    assert "missing" in failed[0].message
    done = {each.generation for each in responses if isinstance(each, Done)}
    assert done == {"see", "again"}
    texts = [
        "".join(e.delta for e in responses if isinstance(e, Text) and e.generation == name)
        for name in ("see", "again")
    ]
    assert texts[0] == texts[1]
