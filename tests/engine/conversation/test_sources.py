"""The messages that tokens of a prompt come from: the characters that are named are the token's,
and what is not sure is not named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import load as load_tokenizer
from tokenizers import normalizers

from engine.conversation.session import Session
from engine.conversation.sources import Sources
from engine.conversation.template import encode_prompt
from engine.conversation.text import TokenTexts
from engine.draft_length.policy import Fixed
from engine.drafters.copying import LookupDrafter, SuffixDrafter
from engine.events import Draft
from engine.request import ChatMessage, Prompt, Request
from tests.support.engine.helpers import Scripted
from tests.support.engine.sessions import collect, loaded
from tests.support.engine.tiny import SPECIAL_TOKENS, byte_tokenizer

STORIES = Path(__file__).parents[2] / "data" / "stories260K"
TEMPLATES = {
    "as it is": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>",
    "stripped": "{% for m in messages %}<{{ m.role }}>\n{{ m.content | trim }}\n\n{% endfor %}",
    "without thoughts": (
        "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1].lstrip('\n') }}"
        "{% endfor %}"
    ),
    "twice": "{% for m in messages %}{{ m.content }} {{ m.content }}{% endfor %}",
    "the latest first": "{% for m in messages | reverse %}<user>{{ m.content }}{% endfor %}",
    "shortened": "{% for m in messages %}<{{ m.role }}>{{ m.content[:5] }}{% endfor %}.",
    "in capitals": "{% for m in messages %}<{{ m.role }}>{{ m.content | upper }}{% endfor %}.",
    "as JSON": "{{ messages | tojson }}",
    "measured": "{% for m in messages %}{{ m.content }}{{ m.content | length }}{% endfor %}",
}
EXACT = ("as it is", "stripped", "twice", "the latest first")
CONTENT = st.lists(
    st.sampled_from(
        [*SPECIAL_TOKENS, "</think>", "user", "a", "aa", " ", "  ", "\n", "ß", "é", "e\u0301", "🙂"]
    )
    | st.text(max_size=3),
    max_size=8,
).map("".join)
CHATS = st.lists(
    st.builds(ChatMessage, st.sampled_from(["system", "user", "assistant"]), CONTENT), max_size=4
).map(lambda before: (*before, ChatMessage("user", "Why?")))


def bytes_of(folder):
    byte_tokenizer(folder)
    return load_tokenizer(folder, eos_token_ids=[256])


@pytest.fixture(scope="module", params=["bytes", "sentencepiece", "composing"])
def tokenizer(request, tmp_path_factory):
    """`composing`: one that writes a letter and its accent as one."""
    if request.param == "sentencepiece":
        found = load_tokenizer(STORIES, eos_token_ids=[256])
        found.add_special_tokens({"additional_special_tokens": [*SPECIAL_TOKENS]})
        return found
    found = bytes_of(tmp_path_factory.mktemp("tokenizer"))
    if request.param == "composing":
        found.backend_tokenizer.normalizer = normalizers.NFC()
    return found


def sources_of(tokenizer, messages):
    prompt = Prompt(messages=messages)
    tokens = encode_prompt(tokenizer, prompt)
    return Sources(tokenizer, prompt, tokens), tokens


@given(messages=CHATS, template=st.sampled_from(sorted(TEMPLATES)))
def test_a_source_has_the_text_of_its_token(tokenizer, messages, template):
    tokenizer.chat_template = TEMPLATES[template]
    sources, tokens = sources_of(tokenizer, messages)
    texts = TokenTexts(tokenizer)
    for place, token in enumerate(tokens):
        found = sources.of(place)
        if found is not None:
            content = messages[found.message].content[found.offset :]
            text = texts.text_of(token)
            if "\ufffd" in text:
                assert texts.bytes_of(token) in content.encode()
            else:
                assert text
                assert content.startswith(text)
    assert sources.of(len(tokens)) is None


@given(messages=CHATS, template=st.sampled_from(EXACT))
def test_all_that_is_said_is_found(tokenizer, messages, template):
    """Each message's letters in their order, and all of them, where a token is a letter or a byte
    of one."""
    tokenizer.chat_template = TEMPLATES[template]
    if len(tokenizer.get_vocab()) > 300 or tokenizer.backend_tokenizer.normalizer is not None:
        return
    if sum(message.role == "system" for message in messages) > 1 and template == "stripped":
        return  # they are one to the template, and stripped as one
    sources, tokens = sources_of(tokenizer, messages)
    found = [source for place in range(len(tokens)) if (source := sources.of(place))]
    for number, message in enumerate(messages):
        inner = message.content.strip()
        start = message.content.index(inner)
        wanted = set(range(start, start + len(inner)))
        assert {each.offset for each in found if each.message == number} == wanted


def test_tokens_where_messages_are_left_out(tokenizer):
    tokenizer.chat_template = TEMPLATES["as it is"]
    messages = [ChatMessage("user", text) for text in ("one", "two", "three", "four")]
    prompt = Prompt(messages=(messages[0], messages[3]))
    tokens = encode_prompt(tokenizer, prompt)
    sources = Sources(tokenizer, prompt, tokens, left_out=range(1, 3))
    texts, found = TokenTexts(tokenizer), set[int]()
    for place, token in enumerate(tokens):
        if source := sources.of(place):
            found.add(source.message)
            rest = messages[source.message].content[source.offset :]
            assert rest.startswith(texts.text_of(token).strip())
    assert found == {0, 3}


def test_what_a_template_changes_or_is_not_a_chat_has_no_sources(tokenizer):
    for template in ("shortened", "in capitals", "measured"):
        tokenizer.chat_template = TEMPLATES[template]
        sources, tokens = sources_of(tokenizer, (ChatMessage("user", "see the user here"),))
        assert all(sources.of(place) is None for place in range(len(tokens))), template
    for prompt in (Prompt(text="see what?"), Prompt(tokens=(1, 2, 3)), Prompt()):
        assert Sources(tokenizer, prompt, [1, 2, 3]).of(1) is None, prompt


def drafts_of(tokenizer, messages, script, drafter):
    """Of an answer to this chat, by a model that wants this `script`."""
    session = Session(loaded(Scripted([*script, 256]), tokenizer))
    session.drafter, session.policy = drafter, Fixed(8)
    events = collect(session, session.answer(messages, Request(max_tokens=200)))
    return [event for event in events if isinstance(event, Draft)]


@pytest.mark.parametrize("drafter", [LookupDrafter, SuffixDrafter])
def test_a_draft_names_the_message_that_it_is_copied_from(drafter, tmp_path):
    tokenizer = bytes_of(tmp_path)
    said = "Quote: the goods are paid for within thirty days."
    messages = [ChatMessage("system", "Be brief."), ChatMessage("user", said)]
    prompt = encode_prompt(tokenizer, Prompt(messages=tuple(messages)))
    answer = b"The goods are paid for within thirty days. goods are paid for within"
    drafts = drafts_of(tokenizer, messages, [*prompt, *answer], drafter())
    known = [draft for draft in drafts if draft.source is not None]
    assert len(known) > 3
    for draft in known:
        copied = "".join(token.text for token in draft.tokens)
        content = messages[draft.source.message].content
        assert content.startswith(copied[: len(content) - draft.source.offset], draft.source.offset)
    # What it wrote itself is no message of the chat.
    assert any(draft.source is None for draft in drafts)
