"""The states of the window that are worth a picture, by name, and how each is reached.

No model runs: the answers and all figures are made up. What each yields is saved at once.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QListView, QTabWidget, QWidget

from app.documents.text_dialog import TextDialog
from app.markdown.asides import number_of
from app.race.dialog import RaceDialog
from app.server.local_server import ServerState
from app.server.panel import ServerPanel
from app.tools.panel import ToolsPanel
from app.tools.server_dialog import ServerDialog
from app.tools.server_rows import Place, rows_of
from engine.documents.prompt import Attached, write_message
from engine.documents.reading import read_document
from engine.tools.configuration import Configuration
from engine.tools.protocol import OWN, Offered, Server, State
from models.answers import Found, Rated
from models.answers import Offered as Offers
from tests.lab.pictures.real_pair import until
from tests.support.app.attached import attach
from tests.support.app.fake_commands import commands_of
from tests.support.app.fake_tools import READ, WRITE, FakeTools, called
from tests.support.app.laid_over import laid_over
from tests.support.app.library_samples import CANDIDATES, FOUND, INVENTORY_ANSWER, OFFERS
from tests.support.app.made_traces import made_trace
from tests.support.app.window_maker import events_file, fake_host, fake_server, make_window
from tests.support.documents.pdfs import lines, pdf

QUESTION = "Write a Python function that says whether a number is prime, and show three cases."
ANSWER = """\
A prime has **no divisor** but one and itself. It is enough to try those up to the square root:

```python
def is_prime(number: int) -> bool:
    return number > 1 and all(number % n for n in range(2, int(number**0.5) + 1))
```

| number | divisors tried | prime |
|-------:|:---------------|:------|
| 7      | 2              | yes   |
| 9      | 2, 3           | no    |
| 97     | 2 to 9         | yes   |

1. Even numbers end at the first step, since `2` divides them.
2. The square root of 97 is *just* below ten, so nine steps are enough.
"""
SKY = "Why is the sky blue, and red in the evening?"
SKY_ANSWER = (
    "Sunlight has all colours in it. On its way through the air it meets molecules that are much "
    "smaller than a wave of light, and these scatter short waves far more than long ones. So blue "
    "light comes from all over the sky.\n\nIn the evening the light has a much longer way through "
    "the air. By the time it arrives, most of the blue has been scattered out of it.\n\n" * 3
)
EARLIER = ("A letter to the landlord", "Regular expressions for dates", "Why the sky is blue")
PAGES = (
    ("1. Rent", "The tenant pays the rent of 1,150 euros on the first day of each month."),
    ("2. Heating", "The landlord has the heating looked after once a year, before November."),
)
COPIED = (
    "- **Rent:** *the tenant pays the rent of 1,150 euros* on the first day of each month.\n"
    "- **Heating:** the landlord has the heating looked after once a year, by Peter Stern.\n\n"
    "The lease does not mention repairs, which may cost 300 euros."
)


@dataclass(frozen=True)
class Stage:
    """Makes windows in a folder. The model in them is called a simulated one, which it is."""

    application: QApplication
    home: Path
    dark: bool

    def events(self, name, events):
        return events_file(self.home, events, name=f"{name}.jsonl")

    def window(self, steps="ready take load serve", **more):
        window = make_window(
            self.application,
            self.home,
            fake_host(self.home, steps),
            target=Path("/models/simulated-model"),
            dark=self.dark,
            **more,  # type: ignore[arg-type]
        )
        window.show()
        window.begin()
        until(lambda: window.loader.loaded is not None)
        return window


def conversation(stage):
    """Empty, while an answer comes, with each token's origin, in a race, with a search."""
    answer = made_trace(ANSWER)
    whole, raced = stage.events("whole", answer), stage.events("raced", made_trace(SKY_ANSWER))
    plain = stage.events("plain", made_trace(SKY_ANSWER, longest=0))
    window = stage.window(
        f"ready take load take part:{len(answer) // 3}:{whole} take "
        f"-- ready take load take play:{whole} take race:{plain}:{raced} serve"
    )
    for title in EARLIER:
        window.store.say(window.store.create(title=title).result().id, SKY).result()
    yield "empty", window
    _ask(window, QUESTION)
    until(lambda: window.rounds.panel.stats.rounds > 10)
    yield "stream", window
    window.engine.restart()
    until(lambda: not window.answers.busy and window.loader.loaded is not None)
    window.menus.actions["regenerate"].trigger()
    until(lambda: window.answers.busy)
    until(lambda: not window.answers.busy)
    yield "answer", window
    window.menus.actions["provenance"].trigger()
    until(lambda: laid_over(window.transcript.messages[-1].view.document()))
    window.transcript.write_all()
    yield "provenance", window
    window.composer.set_text(SKY)
    window.menus.actions["race"].trigger()
    race = _child(window, RaceDialog)
    race.start()
    until(lambda: race.verdict.tone != "muted")
    yield "race", race
    race.reject()
    until(lambda: window.loader.loaded is not None)
    window.menus.actions["search"].trigger()
    QTest.keyClicks(window.sidebar.focusWidget() or window.sidebar, "sky")
    lists = {view.accessibleName(): view for view in window.findChildren(QListView)}
    until(lists["Found"].isVisible)
    yield "search", window
    window.close()


def documents(stage):
    """A long PDF, a short text and an empty file, attached; what would be sent of them."""
    window = stage.window()
    clause = "The tenant pays the rent of clause {} on the first day of each month."
    pages = (lines([clause.format(f"{page}.{n}") for n in range(1, 17)]) for page in range(1, 31))
    lease, notes, empty = (stage.home / name for name in ("lease.pdf", "notes.md", "scan.txt"))
    lease.write_bytes(pdf(*pages))
    notes.write_text("Ask about the deposit, and who pays for the heating.\n", encoding="utf-8")
    empty.touch()
    window.composer.set_text("What does clause 7.3 say about the rent?")
    attach(window, until, lease, notes, empty)
    yield "attached", window
    window.composer.documents.chips[0].view.click()
    dialog = _child(window, TextDialog)
    yield "what-is-sent", dialog
    dialog.close()
    window.close()


def words(stage):
    """An answer that copies from a document: its words marked, and the page they are on."""
    window = stage.window()
    store = window.store
    lease = stage.home / "lease.pdf"
    lease.write_bytes(pdf(*(lines(page) for page in PAGES)))
    made, document = store.create().result().id, read_document(lease)
    kept = Attached(store.attach(made, document, original=lease).result(), document)
    sent = write_message("Who pays for what?", [kept])
    asked = store.ask(made, "Who pays for what?", sent=sent, target="Example", drafter="").result()
    store.finish_answer(asked[1][-1].id, COPIED, (), state="complete").result()
    if not window.words.marked:
        window.menus.actions["words"].trigger()
    window.show_conversation(made)
    until(lambda: len(window.transcript.messages) == 2)
    row = window.transcript.messages[-1]
    until(lambda: row.shown.words.copied and row.widget is not None)
    window.transcript.write_all()
    yield "words", window
    assert row.widget is not None
    row.widget.word_marks.asked.emit(row.shown.words.copied[0])
    until(lambda: window.page_panel.page.picture is not None)
    yield "page", window
    window.close()


def library(stage):
    """The Library's pages: waiting, full, searching, without a connection, downloading."""
    window = stage.window()
    commands, controller = commands_of(window), window.library_controller
    quiet = replace(INVENTORY_ANSWER, downloads=())
    window.open_library()
    view = controller.view
    yield "library-waits", window
    commands.answer_all(quiet, Offers(OFFERS), Rated("", CANDIDATES))
    yield "library-offers", window
    view.show_page("search")
    yield "library-search-empty", window
    view.search.field.setText("qwen3")
    view.search.searched.emit("qwen3")
    commands.asked("search").fail("There is no connection to the hub.", "Check it, and try again.")
    yield "library-search-offline", window
    for name, found in (("nothing", ()), ("found", FOUND)):
        view.search.searched.emit(name)
        commands.asked("search").answer(Found(found))
        yield f"library-search-{name}", window
    controller.pending_offer = replace(OFFERS[0])
    window.library.refresh()
    commands.answer_all(INVENTORY_ANSWER, Offers(OFFERS), Rated("", CANDIDATES))
    for page in ("drafters", "disk", "downloads", "offers"):
        view.show_page(page)
        yield f"library-{page}-downloading", window
    view.leave()
    window.close()


def tools(stage):
    """An answer in several steps: asked about, running, done; then a call refused, one failed."""
    answers = (
        called("I look at your notes first.\n", ("read_file", '{"path": "notes/heating.md"}')),
        made_trace("Two invoices are open:\n\n| invoice | open |\n|--|--:|\n| 131 | 460.50 |\n"),
        called("", ("write_file", '{"path": "open.md"}'), ("read_file", '{"path": "2024.md"}')),
        made_trace("I could not write the file, and there are no notes of 2024."),
    )
    played = " ".join(f"take play:{stage.events(str(n), a)}" for n, a in enumerate(answers))
    offered = FakeTools(READ, WRITE)
    window = stage.window(f"ready take thinks {played} serve", tools=offered)

    def approval():
        until(lambda: window.transcript.messages[-1].shown.approval is not None)
        QTest.qWait(100)
        widget = window.transcript.messages[-1].widget
        assert widget is not None
        assert widget.approval is not None
        return widget.approval

    _ask(window, "What do we still owe for the heating, by the invoices in my notes?")
    until(lambda: window.transcript.messages)
    approval()
    yield "tools-approval", window
    approval().buttons["once"].click()  # type: ignore[attr-defined]
    until(lambda: offered.calls)
    offered.progress(1, 4, "reading")
    yield "tools-running", window
    offered.end("2026-05-11  Invoice 131, pipes: 860.50, of which 400.00 are paid\n" * 20)
    until(lambda: not window.conversation.busy)
    window.transcript.messages[-1].view.text.fold(number_of(0))
    window.transcript.write_all()
    yield "tools-unfolded", window
    _ask(window, "Write the open ones to a file. And what was it in 2024?")
    for decision in ("refuse", "once"):
        approval().buttons[decision].click()  # type: ignore[attr-defined]
        QTest.qWait(100)
    until(lambda: len(offered.calls) >= 2)
    offered.end("notes/2024.md: there is no such file", ending="failed")
    until(lambda: not window.conversation.busy)
    yield "tools-refused-and-failed", window
    window.close()


def tools_panel(stage):
    """The panel of tools with each kind of row, and the dialog that adds servers."""
    schema = json.dumps({"type": "object", "properties": {"path": {"type": "string"}}})
    files = tuple(
        Offered("files", name, description=f"{name}: a file.", schema=schema, read_only=reads)
        for name, reads in (("read_text_file", True), ("write_file", False))
    )
    own = (Offered(OWN, "calculate", description="Calculate.", schema="{}", read_only=True),)
    servers = (Server("files", "npx", ("-y", "server-files")), Server("git", "uvx", ("mcp",)))
    states = (
        State(OWN, "running", own),
        State("files", "running", files, "files 0.2.0", "Ask before you write."),
        State("git", "failed", message="There is no program uvx.", remedy="Install uv."),
    )
    panel = ToolsPanel(window := stage.window())
    setup = Configuration(servers, trusted=frozenset({"files"}), folders=("/Users/me/Notes",))
    setup = setup.switched(*own, files[0], on=True)
    pairs = list(zip((Server(OWN), *servers), states, strict=True))
    panel.show()
    panel.show_rows([row for each, state in pairs for row in rows_of(each, state, setup, log="")])
    for place in (Place(OWN), Place("files"), Place("files", "tool", "write_file"), Place("git")):
        panel.tree.setCurrentItem(panel.items[place])
        yield f"tools-panel-{place.server}-{place.name or 'itself'}", panel
    found = [("Claude Desktop", server) for server in servers]
    for name, dialog in (
        ("add", ServerDialog(found=found, parent=panel)),
        ("edit", ServerDialog(servers[0], found=(), parent=panel)),
    ):
        dialog.show()
        yield f"tools-panel-{name}", dialog
    panel.close()
    window.close()


def server(stage):
    """The local server's panel: off, with requests and models, and with its port taken."""
    busy = (
        "listen request:1:writing:Zed request:2:waiting:Aider "
        "model:loaded:smollm2-135m-instruct model:not_loaded:Llama-3.3-70B-Instruct-4bit rest"
    )
    taken = "listen:Port_8737_is_in_use._Choose_another_one. exit:1"
    for name, steps in {"off": "rest", "requests": busy, "problem": taken}.items():
        home = stage.home / name
        home.mkdir()
        window = replace(stage, home=home).window(server=fake_server(home, steps))
        window.menus.actions["server"].trigger()
        panel = _child(window, ServerPanel)
        if name != "off":
            panel.switch.click()
            wanted = ServerState.FAILED if name == "problem" else ServerState.ON
            until(lambda w=wanted, s=window.application.server: s.state is w)
        pages = panel.findChild(QTabWidget)
        for page in range(pages.count()):
            pages.setCurrentIndex(page)
            yield f"server-{name}-{page}", panel
        window.close()


STATES = {
    "conversation": conversation,
    "documents": documents,
    "words": words,
    "library": library,
    "tools": tools,
    "tools-panel": tools_panel,
    "server": server,
}


def _ask(window, question):
    window.composer.set_text(question)
    window.composer.send()


def _child[T: QWidget](window, kind):
    found = window.findChild(kind)
    assert isinstance(found, kind)
    return found
