"""Any order of operations, against a model of dictionaries: the store agrees, always."""

import dataclasses
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from app.conversations.store import Store
from models.errors import Problem
from tests.support.mostly_slow import examples

texts = st.text(max_size=8)


@dataclasses.dataclass
class Node:
    parent: int | None
    content: str
    state: str


class Trees(RuleBasedStateMachine):
    """`nodes` and `leaves` are what the store should hold; `deleted` is hidden only."""

    chats = Bundle("chats")
    messages = Bundle("messages")

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = Store.open(Path(self.folder.name) / "c.sqlite")
        self.home = {}
        self.nodes = {}
        self.leaves = {}
        self.deleted = {}

    def teardown(self):
        self.store.close()
        self.folder.cleanup()

    def _added(self, chat, id, node):
        assert id not in self.nodes
        self.home[id], self.nodes[id], self.leaves[chat] = chat, node, id
        return id

    def _refused(self, attempt, chat):
        """Whether the chat is deleted: then nothing can be done to it."""
        if chat in self.deleted:
            assert isinstance(attempt.exception(), Problem)
        return chat in self.deleted

    @rule(target=chats)
    def create(self):
        id = self.store.create().result().id
        self.leaves[id] = None
        return id

    @rule(target=messages, chat=chats, content=texts)
    def say(self, chat, content):
        attempt = self.store.say(chat, content)
        if self._refused(attempt, chat):
            return multiple()
        node = Node(self.leaves[chat], content, "complete")
        return self._added(chat, attempt.result().id, node)

    @rule(target=messages, chat=chats, content=texts)
    def ask(self, chat, content):
        attempt = self.store.ask(chat, content, target="t", drafter="d")
        if self._refused(attempt, chat):
            return multiple()
        _, branch = attempt.result()
        question = Node(self.leaves[chat], content, "complete")
        self._added(chat, branch[-2].id, question)
        return self._added(chat, branch[-1].id, Node(branch[-2].id, "", "streaming"))

    @rule(target=messages, message=messages, content=texts)
    def edit(self, message, content):
        attempt = self.store.edit(message, content)
        if self._refused(attempt, self.home[message]):
            return multiple()
        node = Node(self.nodes[message].parent, content, "complete")
        return self._added(self.home[message], attempt.result().id, node)

    @rule(target=messages, message=messages, content=texts)
    def begin(self, message, content):
        attempt = self.store.begin_answer(message, target="t", drafter="d", content=content)
        if self._refused(attempt, self.home[message]):
            return multiple()
        node = Node(message, content, "streaming")
        return self._added(self.home[message], attempt.result().id, node)

    @rule(message=messages, content=texts, state=st.sampled_from(["streaming", "failed"]))
    def write(self, message, content, state):
        if state == "streaming":
            failure = self.store.flush_answer(message, content, ()).exception()
        else:
            failure = self.store.finish_answer(message, content, (), state="failed").exception()
        if self.nodes[message].state == "streaming":
            assert failure is None
            self.nodes[message].content, self.nodes[message].state = content, state
        else:
            assert isinstance(failure, Problem)

    @rule(message=messages)
    def switch(self, message):
        attempt = self.store.switch(message)
        if self._refused(attempt, self.home[message]):
            return
        attempt.result()
        leaf = message
        while children := [id for id, node in self.nodes.items() if node.parent == leaf]:
            leaf = max(children)
        self.leaves[self.home[message]] = leaf

    @rule(chat=chats)
    def delete(self, chat):
        attempt = self.store.delete(chat)
        if not self._refused(attempt, chat):
            self.deleted[chat] = attempt.result()

    @rule(chat=chats)
    def restore(self, chat):
        if (deletion := self.deleted.pop(chat, None)) is not None:
            self.store.undo(deletion).result()

    @rule()
    def reopen(self):
        path = self.store.path
        self.store.close()
        self.store = Store.open(path)
        assert self.store.notice is None
        for node in self.nodes.values():
            if node.state == "streaming":
                node.state = "interrupted"

    @invariant()
    def agrees(self):
        listed = {each.id: each for each in self.store.conversations().result()}
        assert set(listed) == set(self.leaves) - set(self.deleted)
        for chat, conversation in listed.items():
            assert conversation.leaf == self.leaves[chat]
            expected = []
            id = self.leaves[chat]
            while id is not None:
                expected.insert(0, id)
                id = self.nodes[id].parent
            branch = self.store.branch(chat).result()
            assert [message.id for message in branch] == expected
            for message in branch:
                parent = self.nodes[message.id].parent
                of_chat = (id for id in self.nodes if self.home[id] == chat)
                same = [id for id in of_chat if self.nodes[id].parent == parent]
                assert (message.siblings, same[message.place - 1]) == (len(same), message.id)
        for id, node in self.nodes.items():
            found = self.store.message(id).result()
            assert Node(found.parent, found.content, found.state) == node


TestTrees = Trees.TestCase
TestTrees.settings = settings(max_examples=examples(25), stateful_step_count=25, deadline=None)
