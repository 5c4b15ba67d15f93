"""A file that was written before the first release opens, with all its texts and figures."""

import shutil
from pathlib import Path

from app.conversations.store import Store
from app.rounds.trace import Trace
from engine.conversation.stats import ENOUGH_PLAIN_ROUNDS, NoRatio, against_plain, tally
from tests.support.app.traces import text_of

# Of protocol 1, whose texts do not say which tokens gave them: answers drafted by two drafters, of
# bytes and with a stop string, cancelled, failed, interrupted, and going on with another answer.
OLD = Path(__file__).parents[1] / "data" / "old_conversations.sqlite"


def test_an_old_answer_is_shown_with_its_text_and_figures(tmp_path: Path) -> None:
    shutil.copy(OLD, tmp_path / "conversations.sqlite")
    with Store.open(tmp_path / "conversations.sqlite") as store:
        listed = store.conversations().result()
        branches = [store.branch(conversation.id).result() for conversation in listed]
        answers = [each for branch in branches for each in branch if each.role == "assistant"]
        traces = [store.trace(answer.id).result() for answer in answers]
    assert len(answers) > 1
    for answer, events in zip(answers, traces, strict=True):
        assert text_of(events) == answer.content
        trace, stats = Trace(events), tally(events)
        assert len(trace.committed) == stats.committed
        own = stats.plain >= ENOUGH_PLAIN_ROUNDS and stats.proposed > 0
        assert own or isinstance(against_plain(stats), NoRatio), "only from its own plain rounds"
