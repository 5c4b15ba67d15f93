"""Pictures in requests: what each dialect calls them, what reaches the engine, what is refused."""

import base64
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from engine.process.protocol import Count, Generate
from engine.request import ChatMessage, chat
from engine.server.conversation import Sent
from engine.server.errors import Refusal
from engine.server.pictures import MOST_PICTURES, Pictures
from tests.support.documents.pdfs import line, pdf
from tests.support.documents.pictures import SIZE, drawn, saved
from tests.support.engine.asking import asking, run
from tests.support.engine.scripted_host import script

pytestmark = pytest.mark.usefixtures("read_here")
PNG = base64.b64encode(saved(drawn(), "PNG")).decode()
JPEG = base64.b64encode(saved(drawn("L"), "JPEG")).decode()
BROKEN = base64.b64encode(b"\0\0\0\x18ftypheic").decode()
ADDRESS = "https://example.com/a.png"
NOT_FETCHED = "Addresses are not fetched."
LATER = [{"role": "assistant", "content": "No."}, {"role": "user", "content": "Why?"}]


def url(data):
    return data if ":" in data else f"data:image/png;base64,{data}"


def in_chat(*parts):
    content = [*parts, {"type": "text", "text": "See?"}]
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": content}]}


def in_input(*parts):
    content = [*parts, {"type": "input_text", "text": "See?"}]
    return "/v1/responses", {"input": [{"role": "user", "content": content}]}


def in_messages(*parts):
    content = [*parts, {"type": "text", "text": "See?"}]
    return "/v1/messages", {"messages": [{"role": "user", "content": content}], "max_tokens": 9}


def block(data):
    packed = {"type": "base64", "media_type": "image/png", "data": data}
    source = {"type": "url", "url": data} if ":" in data else packed
    return {"type": "image", "source": source}


def openai(*images):
    return in_chat(*({"type": "image_url", "image_url": {"url": url(data)}} for data in images))


def responses(*images):
    shown = {"type": "input_image", "detail": "low"}
    return in_input(*({**shown, "image_url": url(data)} for data in images))


def anthropic(*images):
    return in_messages(*map(block, images))


def ollama(*images):
    message = {"role": "user", "content": "See?", "images": [*images]}
    return "/api/chat", {"messages": [message], "stream": False}


def generate(*images):
    return "/api/generate", {"prompt": "See?", "images": [*images], "stream": False}


PLACES = {
    openai: "messages[0].content[0]",
    responses: "input[0].content[0]",
    anthropic: "messages[0].content[0]",
    ollama: "messages[0].images[0]",
    generate: "images[0]",
}


def looking(command):
    """Says which of the pictures are there while it answers."""
    shown = [picture for message in command.prompt.messages for picture in message.pictures]
    there = [f"{each.width} by {each.height}. " for each in shown if Path(each.path).exists()]
    return script(*there, id=command.id)


def sent(path, body, *, sees=True):
    """The response, and the messages that the engine was asked with."""

    async def ask():
        async with asking(looking, sees=sees) as (client, host):
            response = await client.post(path, json=body)
            commands = (each for each in host.taken if isinstance(each, Generate | Count))
            prompts = [each.prompt for each in commands]
            return response, [*prompts[-1].messages] if prompts else []

    return run(ask())


def complaint(response):
    error = response.json()["error"]
    return error if isinstance(error, str) else error["message"]


@pytest.mark.parametrize("dialect", PLACES)
def test_each_dialect_has_its_pictures_with_their_places(dialect):
    response, messages = sent(*dialect(PNG, JPEG, PNG))
    assert response.status_code == 200, response.text
    assert "48 by 32. 48 by 32. 48 by 32." in response.text
    first, second, third = messages[-1].pictures
    assert first == third != second
    assert (first.width, first.height) == SIZE
    assert messages[-1].content == "See?"
    for sees, data, words in (
        (True, ADDRESS, NOT_FETCHED),
        (True, "file:///etc/passwd", NOT_FETCHED),
        (True, "data:image/png,abc", "not base64"),
        (True, "data:image/png;base64,???", "not base64"),
        (True, BROKEN, "HEIC"),
        (False, PNG, "tiny"),
    ):
        response, messages = sent(*dialect(data), sees=sees)
        assert (response.status_code, messages) == (400, []), data
        assert words in complaint(response)
        assert PLACES[dialect] in complaint(response)


def test_what_cannot_be_shown_of_the_past_is_a_note():
    for sees, data in ((False, PNG), (True, ADDRESS)):
        path, body = openai(data)
        response, messages = sent(path, {"messages": [*body["messages"], *LATER]}, sees=sees)
        assert response.status_code == 200
        assert (messages[0].content[:17], messages[0].pictures) == ("[image: not shown", ())
        assert messages[0].content.endswith("]\n\nSee?")
        assert (NOT_FETCHED in messages[0].content) == sees
    path, body = openai(*[PNG] * MOST_PICTURES)
    _, messages = sent(path, {"messages": body["messages"] * 2})
    assert [len(message.pictures) for message in messages] == [0, MOST_PICTURES]
    assert messages[0].content.startswith("[image: not shown")


def test_pictures_of_results_are_shown_after_them():
    def result(id, *content):
        return {"type": "tool_result", "tool_use_id": id, "content": [*content]}

    calls = [{"type": "tool_use", "id": id, "name": "read", "input": {}} for id in ("a", "b")]
    text = {"type": "text", "text": "Read."}
    answered = [result("a", block(PNG)), result("b", text)]
    said = (("user", "Look."), ("assistant", calls), ("user", answered))
    body = {"messages": [{"role": role, "content": content} for role, content in said]}
    response, messages = sent("/v1/messages", body | {"max_tokens": 9})
    assert response.status_code == 200
    assert [(each.role, each.content, len(each.pictures)) for each in messages[2:]] == [
        ("tool", "[image: shown below]", 0),
        ("tool", "Read.", 0),
        ("user", "", 1),
    ]
    blind, messages = sent("/v1/messages", body | {"max_tokens": 9}, sees=False)
    assert blind.status_code == 200
    assert messages[2].content.startswith("[image: not shown")


def test_tokens_are_counted_with_pictures_and_too_many_are_refused():
    response, messages = sent("/v1/messages/count_tokens", anthropic(PNG)[1])
    assert response.json() == {"input_tokens": 1}
    assert [picture.width for picture in messages[-1].pictures] == [48]
    for images, code in (([BROKEN], "invalid_image"), ([PNG] * 101, "too_many_images")):
        response, _ = sent(*openai(*images))
        assert response.json()["error"]["code"] == code
    path, body = generate(PNG)
    for more in ({"raw": True}, {"suffix": "b"}):  # where there is no place for any
        assert sent(path, body | more)[0].status_code == 400


async def read(pictures, held, data=PNG):
    question = chat([ChatMessage("user", "See?", pictures=(Sent(data, place="here"),))])
    prompt = await pictures.shown(question, model="tiny", sees=True, held=held)
    return prompt.messages[0].pictures[0]


async def test_a_picture_is_read_once_and_kept_for_the_next_request():
    pictures = Pictures()
    found = set()
    for _ in range(3):
        async with AsyncExitStack() as held:
            path = Path((await read(pictures, held)).path)
            found.add((path, path.stat().st_mtime_ns))
            assert path.parents[1].stat().st_mode & 0o077 == 0
    assert len(found) == 1
    del pictures
    assert not path.parents[1].exists()
    pictures = Pictures()
    for _ in range(2):  # a failure is not kept
        async with AsyncExitStack() as held:
            with pytest.raises(Refusal):
                await read(pictures, held, ADDRESS)
    for _ in range(2):  # a lost file is read again
        async with AsyncExitStack() as held:
            path = Path((await read(pictures, held)).path)
            assert path.exists()
        path.unlink()


async def test_pictures_that_nobody_needs_go_where_there_are_too_many():
    pictures = Pictures(kept_bytes=0)
    async with AsyncExitStack() as other:
        kept = await read(pictures, other)
        async with AsyncExitStack() as held:
            gone = await read(pictures, held, JPEG)
            assert Path(gone.path).exists()
        assert not Path(gone.path).exists()
        assert Path(kept.path).exists()
    assert not Path(kept.path).exists()


TEXT = "Höhe,9\nBreite,8\n"


def as_data(data, kind="text/plain"):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def file(data, name=""):
    return {"type": "file", "file": {"file_data": data, "filename": name}}


PARTS = [{"type": "text", "text": TEXT}]
PACKED = base64.b64encode(TEXT.encode()).decode()
PLAIN = {"type": "base64", "media_type": "text/plain", "data": PACKED}
PY = as_data(TEXT.encode())
FOUND = {"type": "search_result", "source": "https://a/b", "title": "Sizes", "content": PARTS}
DOCUMENTS = (
    ({"source": PLAIN, "title": "Sizes"}, "Sizes.txt"),
    ({"source": {"type": "text", "media_type": "text/plain", "data": TEXT}}, "document"),
    ({"source": {"type": "content", "content": PARTS}, "title": "Sizes"}, "Sizes"),
    ({"source": {"type": "content", "content": TEXT}}, "document"),
)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (in_chat(file(as_data(TEXT.encode()))), "document.txt"),
        (in_chat(file(as_data(pdf(line("Breite 9")), "application/pdf"), "p.pdf")), "p.pdf"),
        (in_chat(file(as_data(TEXT.encode(), "text/csv;charset=utf-8"), "a.csv")), "a.csv"),
        (in_chat(file(as_data(b"<p>" + TEXT.encode(), "text/html"))), "document.html"),
        (in_chat(file(f"data:text/plain,{quote(TEXT)}", "b.txt")), "b.txt"),
        (in_chat(file(PACKED, "../../c.txt")), "../../c.txt"),
        (in_input({"type": "input_file", "filename": "a.py", "file_data": PY}), "a.py"),
        *((in_messages({"type": "document", **each}), name) for each, name in DOCUMENTS),
        (in_messages(FOUND), "Sizes"),
    ],
)
def test_a_file_is_read_as_a_text(asked, name):
    response, messages = sent(*asked, sees=False)
    assert response.status_code == 200, response.text
    (message,) = messages
    assert message.content.startswith(f"[Document: {name}]\n")
    assert "9" in message.content
    assert message.content.endswith("[End of document]\n\nSee?")
    assert message.pictures == ()


def test_a_file_that_cannot_be_read_is_refused_now_and_noted_later():
    for part, words in (
        (file(as_data(b"{\\rtf1 x}", "application/rtf")), "RTF"),
        (file("https://example.com/a.txt"), NOT_FETCHED),
        (file("???"), "not base64"),
        ({"type": "file", "file": {"file_id": "file_1"}}, "as data"),
    ):
        path, body = in_chat(part)
        response, _ = sent(path, body)
        assert response.status_code == 400
        assert words in complaint(response)
        assert "messages[0].content[0]" in complaint(response)
        response, messages = sent(path, {"messages": [*body["messages"], *LATER]})
        assert response.status_code == 200
        assert messages[0].content.startswith("[file: not shown")


def test_a_file_in_a_result_is_read_and_a_broken_one_ends_no_conversation():
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    parts = (
        {"type": "document", "source": PLAIN},
        {"type": "document", "source": PLAIN, "title": "Again"},
        block(BROKEN),
        FOUND,
    )
    result = {"type": "tool_result", "tool_use_id": "a", "content": [*parts]}
    said = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    response, messages = sent("/v1/messages", {"messages": said, "max_tokens": 9})
    assert response.status_code == 200, response.text
    assert messages[-1].role == "tool"
    assert messages[-1].content.count(TEXT.strip()) == 3
    assert "[Document: Again.txt]" in messages[-1].content
    assert "HEIC" in messages[-1].content
