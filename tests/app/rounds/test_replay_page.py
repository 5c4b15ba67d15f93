"""A replay as a page: whole, in one file, and harmless for any texts."""

import json
import re
from html.parser import HTMLParser

from app.rounds.replay_page import replay_page
from app.rounds.trace import Replay
from engine.events import (
    Draft,
    DraftedToken,
    Span,
    Text,
    TokenVerdict,
    Verdict,
    WrittenToken,
)
from tests.support.app.traces import recorded, text_of

EVENTS = recorded("stories_early_exit.jsonl")


class Page(HTMLParser):
    """Reads a page: its tags, and the text of its script with the data."""

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.addresses = []
        self.data = ""
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        self._inside = ("id", "data") in attrs

    def handle_data(self, data):
        if self._inside:
            self.data += data
            self._inside = False


def test_a_call_stands_as_a_line_in_its_place():
    lines = [(len(text_of(EVENTS)), "read_file </script>\u202e")]
    data = json.loads(Page(replay_page(Replay(EVENTS, lines), title="A story")).data)
    assert data["rounds"][-1]["pieces"][-1] == ["\n▸ read_file </script>\n", "line"]


def test_it_has_every_round_with_its_tokens():
    text = replay_page(Replay(EVENTS), title="A story", question="Tell a story")
    page = Page(text)
    data = json.loads(page.data)
    written = "".join(
        piece
        for one in data["rounds"]
        for piece, kind in one["pieces"]
        if kind not in ("rejected", "discarded")
    )
    assert written == text_of(EVENTS)
    assert len(data["rounds"]) == len(Replay(EVENTS))
    assert {kind for one in data["rounds"] for _, kind in one["pieces"]} > {"accepted", "rejected"}
    assert all(one["seconds"] > 0 for one in data["rounds"])
    assert (data["title"], data["question"]) == ("A story", "Tell a story")
    assert "tokens/s" in f"{data['gain']} {data['under']}"
    assert page.addresses == [], "it needs nothing else"
    assert not re.search(r"https?:|@import|url\(", text)
    assert "default-src 'none'" in text
    assert json.loads(Page(replay_page(Replay(()), title="")).data)["rounds"] == []


def test_texts_stay_texts():
    joined = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f469\u200d\U0001f4bb"
    hostile = f"</script><script>alert(1)</script><!-- \u202e \u2028 &amp; {joined}"
    drafted = (DraftedToken(1, hostile, 0.5),)
    own = WrittenToken(2, hostile, 0.5, "correction")
    events = [
        Draft("g", 1, drafted, "model"),
        Verdict("g", 1, 0, (TokenVerdict(0.1, 0.2),), own, 0, 1, 1, "r"),
        Text("g", hostile, (Span(1, 0, len(hostile)),)),
    ]
    usual = Page(replay_page(Replay(EVENTS), title="t"))
    page = Page(replay_page(Replay(events), title=hostile, question=hostile))
    assert page.tags == usual.tags
    ((first, _), (second, _)) = json.loads(page.data)["rounds"][0]["pieces"]
    assert first == second
    assert "<script>" in first
    assert "\u202e" not in page.data
    assert first.endswith(joined)
