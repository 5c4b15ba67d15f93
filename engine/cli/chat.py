"""A chat in the terminal: lines in, drawn answers out.

Knows a session and a console; both, and the function that reads lines, are passed in.
"""

import json
import os.path
import shlex
import signal
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text as Styled

from engine.cli.attaching import Attachments, cache_documents, read_attached
from engine.cli.sessions import ChildSession
from engine.cli.terminal import answer_view, closing_remarks, legend, show_closing
from engine.cli.tools import AnswerInSteps, Tools, ask_user
from engine.conversation.stats import tally
from engine.documents import Document
from engine.documents.reading import normalize, read_document
from engine.events import Done, Prefill, Text
from engine.process.interrupts import noting
from engine.request import ChatMessage, Picture, Request, ToolCall
from engine.stretches import folded
from models.errors import Problem, problem_of
from models.files import replacing, written_path
from models.in_words import clean, one_line

_HELP = """\
/regenerate          answer the last message again
/drafter NAME        none, lookup, suffix, lookahead[:W,N,G], early-exit[:LAYERS],
                     a model folder, or several joined with +
/draft-length N      tokens to draft a round; tree:N for a tree of N tokens; or auto
/system TEXT         set the system prompt and start a new conversation
/attach FILE         attach a file or folder to the next message
/image FILE          attach a picture to the next message
/attachments         list attached files; /attachments N prints the text sent of file N
/passages QUESTION   ask with only the relevant passages of long files
/tools               list the tools that the model may call
/save FILE           save the conversation as .json or .md
/help                show this list
/quit                leave the chat (or Ctrl-D)
Ctrl-C stops an answer. Ctrl-\\ ends its thinking and starts the answer."""


class TerminalChat:
    """A conversation on a console."""

    def __init__(
        self,
        session: ChildSession,
        console: Console,
        request: Request,
        attachments: Attachments,
        *,
        read: Callable[..., Document] = read_document,
        see: Callable[..., Picture] = normalize,
        tools: Tools | None = None,
        system: str = "",
    ) -> None:
        self._session = session
        self._console = console
        self._request = request
        self._attachments, self._read, self._see = attachments, read, see
        self._tools = tools
        self._left_out = range(0)  # the messages that did not fit into the latest answer's context
        self.messages: list[ChatMessage] = [ChatMessage("system", system)] if system else []

    def run(self, read: Callable[[], str]) -> None:
        """Read lines with `read`, which raises EOFError at the end, and answer them."""
        if self._tools is not None:
            self._tools.decide = ask_user(self._console, read)
        with noting(signal.SIGQUIT):  # it would end the chat if an answer has just ended
            self._run(read)

    def _run(self, read: Callable[[], str]) -> None:
        self._console.print(legend())
        self._console.print("Type a message, or /help.", style="dim")
        while True:
            try:
                line = read().strip()
            except EOFError:
                self._console.print()
                return
            except KeyboardInterrupt:
                self._console.print("\n/quit leaves the chat.", style="dim")
                continue
            if line == "/quit":
                return
            try:
                self._handle(line)
            except KeyboardInterrupt:  # before or after an answer, which notes it
                self._console.print("\nStopped.", style="dim")
            except Exception as error:
                if (problem := problem_of(error)) is None:
                    raise
                self._console.print(Styled(clean(str(problem))), style="red")

    def _handle(self, line: str) -> None:
        command, _, argument = line.partition(" ")
        argument = argument.strip()
        match command:
            case "":
                pass
            case "/help":
                self._console.print(Styled(_HELP))
            case "/regenerate":
                self._regenerate()
            case "/drafter":
                self._show(self._session.draft(drafter=argument))
                self._console.print(f"Drafting with {argument}.", style="dim", markup=False)
            case "/draft-length":
                self._show(self._session.draft(draft_length=argument))
                self._console.print(f"Draft length {argument}.", style="dim")
            case "/system":
                self.messages = [ChatMessage("system", argument)] if argument else []
                self._left_out = range(0)
                self._console.print("A new conversation.", style="dim")
            case "/attach":
                self._attach(argument)
            case "/image":
                self._show_picture(argument)
            case "/attachments":
                self._list(argument)
            case "/passages":
                self._ask(argument, passages=True)
            case "/tools":
                for tool in self._tools.given if self._tools else ():
                    line = clean(f"{tool.name}, {tool.offered.server}: {tool.offered.description}")
                    self._console.print(Styled(one_line(line)[:200]), style="dim")
            case "/save":
                path = typed_path(argument)
                save(self.messages, path)
                self._console.print(Styled(f"Saved to {path}."), style="dim")
            case _ if command.startswith("/"):
                raise Problem(f"Unknown command: {command}.", "Type /help for a list.")
            case _:
                self._ask(line)

    @property
    def _still_read(self) -> list[ChatMessage]:
        return [message for i, message in enumerate(self.messages) if i not in self._left_out]

    def _ask(self, question: str, *, passages: bool = False) -> None:
        if not question:
            raise Problem("The question is missing.", "For example: /passages When does it end?")
        asked = self._attachments.write(
            question, self._request, before=self._still_read, more=True, passages=passages
        )
        self._answer([*self.messages, asked])

    def _attach(self, argument: str) -> None:
        if not argument:
            raise Problem("The file's name is missing.", "For example: /attach contract.pdf")
        document = read_attached(typed_path(argument), self._console, self._read)
        self._attachments.attach(document)
        self._attachments.show_all(self.messages)

    def _show_picture(self, argument: str) -> None:
        if not argument:
            raise Problem("The picture's name is missing.", "For example: /image photo.jpg")
        self._attachments.show_picture(typed_path(argument), self._see)

    def _list(self, argument: str) -> None:
        if not argument:
            self._attachments.show_all(self.messages)
        elif argument.isdecimal():
            self._attachments.show(int(argument), self.messages)
        else:
            raise Problem(f"{argument} is not a number.", "Type /attachments for a list.")

    def _regenerate(self) -> None:
        asked = list(self.messages)
        while asked and asked[-1].role in ("assistant", "tool"):
            asked.pop()
        if not asked or asked[-1].role != "user":
            raise Problem("No message has been sent yet.", "Write a message first.")
        self._answer(asked)

    def _answer(self, asked: list[ChatMessage]) -> None:
        """Answer `asked`, which becomes the conversation as soon as some of the answer exists."""
        request = replace(self._request, keep_as=self._attachments.digests)
        with noting(signal.SIGINT) as interrupted, noting(signal.SIGQUIT) as hurried:
            answer = AnswerInSteps(
                *(self._session.answer, asked, request, self._tools),
                count=self._attachments.count,
                cancelled=interrupted,
                hurried=hurried,
            )
            self._show_answer(asked, answer)
        events = answer.events
        stats = tally(events)
        self._attachments.learn(events)
        read = next((event for event in reversed(events) if isinstance(event, Prefill)), None)
        if read is not None:
            self._left_out = range(read.left_out_from, read.left_out_from + read.left_out)
        show_closing(self._console, stats)
        self._attachments.show_copied(answer.content)
        self._show(*closing_remarks(events))
        self._show(*cache_documents(self._session))

    def _show_answer(self, asked: list[ChatMessage], answer: AnswerInSteps) -> None:
        """Draw an answer, a generation at a time."""
        try:
            for events in answer.generations():
                with closing(answer_view(self._console)) as view:
                    for event in events:
                        view.show(event)
        finally:
            ended = any(isinstance(e, Done) and e.reason != "cancelled" for e in answer.events)
            if ended or any(isinstance(e, Text) for e in answer.events):
                # Even an empty answer: templates want user and assistant in turns.
                self.messages = [*asked, *answer.messages]
                if asked[-1].pictures == self._attachments.pictures:
                    self._attachments.pictures = ()

    def _show(self, *remarks: str) -> None:
        """Print remarks about an answer; empty ones are left out."""
        for remark in filter(None, remarks):
            self._console.print(Styled(clean(remark)), style="yellow", highlight=False)


def typed_path(text: str) -> Path:
    """Return the path that the user typed, or that the terminal typed for a dropped file."""
    with suppress(ValueError):  # an unclosed quotation mark
        if not os.path.exists(os.path.expanduser(text)):
            parts = shlex.split(text)
            text = parts[0] if len(parts) == 1 else text
    return written_path(text)


def _openai_call(call: ToolCall) -> dict[str, object]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def save(messages: list[ChatMessage], path: Path) -> None:
    """Write a conversation as JSON (OpenAI's message list) or as Markdown, by the suffix.

    Raises Problem if the file exists already or cannot be written.
    """
    if path.suffix == ".md":
        shown = "*a picture*\n\n"
        parts = (
            f"**{m.role}**\n\n{shown * len(m.pictures)}{folded(m.reasoning, m.content)}"
            for m in messages
        )
        text = "\n\n".join(parts) + "\n"
    elif path.suffix == ".json":
        listed = [
            {"role": m.role, "content": _content(m)}
            | ({"reasoning_content": m.reasoning} if m.reasoning else {})
            | ({"tool_calls": list(map(_openai_call, m.tool_calls))} if m.tool_calls else {})
            | ({"tool_call_id": m.tool_call_id} if m.tool_call_id else {})
            for m in messages
        ]
        text = json.dumps({"messages": listed}, ensure_ascii=False, indent=1) + "\n"
    else:
        raise Problem("The file's name must end in .json or .md.", "For example: /save chat.md")
    try:
        data = text.encode()
        path.touch(exist_ok=False)
        try:
            with replacing(path) as partial:
                partial.write_bytes(data)
        except BaseException:
            path.unlink()
            raise
    except FileExistsError as error:
        raise Problem(f"{path} already exists.", "Choose another name.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Problem(f"{path} cannot be written: {reason}.", "Choose another name.") from error


def _content(message: ChatMessage) -> Any:
    """Return a message's content as OpenAI writes it: its text, or parts if it has pictures."""
    if not message.pictures:
        return message.content
    files = [Path(picture.path).read_bytes() for picture in message.pictures]
    urls = [f"data:image/png;base64,{b64encode(file).decode()}" for file in files]
    return [
        *({"type": "image_url", "image_url": {"url": url}} for url in urls),
        {"type": "text", "text": message.content},
    ]
