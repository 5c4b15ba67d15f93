"""The command line: `slipstream`, or `python -m engine`.

Every failure that a person can act on ends here, as one line, with exit code 2.
"""

import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from rich.console import Console

from engine.cli.cluster import app as cluster_app
from engine.cli.folders import target_folder
from engine.cli.models.commands import CONVERT_EXAMPLES, convert
from engine.cli.models.commands import app as models_app
from engine.cli.options import (
    DEFAULT_DRAFTER,
    AnswerOptions,
    Drafter,
    Json,
    MacsOptions,
    MaxTokens,
    Panel,
    Target,
    argument,
    examples,
    option,
    with_options,
)
from engine.cli.serve import epilog, serve
from engine.cli.several_macs import Lost, leading, say_problem
from engine.cpu.blas import restart_with_any_kernels
from engine.request import Overflow
from models.errors import Problem
from models.this_process import Awake

ANSWERS, MODELS, MEASURE = "Answers", "Models and drafters", "This machine"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog=examples(
        "slipstream chat",
        "slipstream generate --prompt 'Why is the sky blue?'",
        "slipstream models pair",
    ),
)


def _tell_version(asked: bool) -> None:
    if asked:
        print(f"Slipstream {metadata.version('slipstream')}")
        raise typer.Exit


@app.callback()
def _slipstream(
    *,
    version: Annotated[
        bool,
        option("Print the version.", "--version", callback=_tell_version, is_eager=True),
    ] = False,
) -> None:
    """Local chat that answers faster without changing what it says."""


@app.command(hidden=True)
def follow() -> None:
    """Obey the Slipstream that started this, on this Mac or another."""
    from engine.cluster.follow import main as obey

    obey()


@app.command(
    rich_help_panel=ANSWERS,
    epilog=examples(
        "slipstream generate --prompt 'Why is the sky blue?' --temperature 0",
        "slipstream generate --prompt 'Who signs it?' --attach contract.pdf",
        words=True,
    ),
)
@with_options
def generate(
    options: AnswerOptions,
    *,
    prompt: Annotated[
        str, option("What to answer; - reads it from standard input.", metavar="TEXT")
    ],
    section_by_section: Annotated[
        bool,
        option(
            "Ask each part of them, then the notes: to count, to sum up.",
            "--section-by-section",
            panel=Panel.DOCUMENTS,
        ),
    ] = False,
    json: Annotated[bool, option("Print events, one a line.", "--json")] = False,
) -> None:
    """Answer one prompt and exit."""
    from engine.cli.attaching import Attachments, keep_what_was_read, read_attached
    from engine.cli.sessions import open_session, show_remarks
    from engine.cli.terminal import answer_view, closing_remarks, show_closing
    from engine.conversation.pair_costs import Remark
    from engine.conversation.stats import tally
    from engine.documents.reading import read_document
    from engine.events import Event, Text, to_json
    from engine.request import ChatMessage

    text = _standard_input() if prompt == "-" else prompt
    if not text.strip():
        raise Problem("The prompt is empty.", "Write something to answer.")
    if section_by_section and not options.attach:
        raise Problem("No file is attached.", "Name one with --attach.")
    errors = Console(stderr=True)
    request = options.request()
    documents = [read_attached(path, errors, read_document) for path in options.attach or ()]
    with (
        closing(open_session(options, quiet=json)) as session,
        closing(Attachments(session, errors, documents)) as attachments,
    ):
        request = replace(request, keep_as=attachments.digests)
        before = [ChatMessage("system", options.system)] * bool(options.system)
        if section_by_section:
            asked = attachments.write_by_section(text, request, before=before)
        else:
            asked = attachments.write(text, request, before=before, more=False)
        messages = [*before, asked]
        answer = session.answer(messages, request, generation=uuid4().hex, compare=lambda: True)
        if json:
            for event in answer:
                print(to_json(event), flush=True)
            keep_what_was_read(session)
            return
        events: list[Event] = []
        with answer_view(Console()) as view:
            for event in answer:
                view.show(event)
                events.append(event)
        show_closing(errors, tally(events))
        attachments.show_copied("".join(each.delta for each in events if isinstance(each, Text)))
        show_remarks(*closing_remarks(events))
        if session.disturbed:
            show_remarks(Remark.BUSY_ANSWERING.value)
        show_remarks(*keep_what_was_read(session))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions(AnswerOptions):
    """Also the option of a conversation that grows."""

    max_tokens: MaxTokens = 1024
    overflow: Annotated[
        Overflow,
        option("If full: middle, rolling or stop.", panel=Panel.ANSWER, metavar="HOW"),
    ] = "middle"


@app.command(
    rich_help_panel=ANSWERS, epilog=examples("slipstream chat --attach FOLDER", words=True)
)
@with_options
def chat(options: ChatOptions) -> None:
    """Chat, and watch every guess being accepted or struck out."""
    from engine.cli.attaching import Attachments, read_attached
    from engine.cli.chat import TerminalChat
    from engine.cli.sessions import open_session
    from engine.documents.reading import read_document

    console = Console()
    request = options.request(overflow=options.overflow)
    documents = [read_attached(path, console, read_document) for path in options.attach or ()]
    with (
        closing(open_session(options)) as session,
        closing(Attachments(session, console, documents)) as attachments,
    ):
        with suppress(ImportError):
            import readline  # noqa: F401  # gives input() its line editing
        terminal = TerminalChat(session, console, request, attachments, system=options.system)
        terminal.run(lambda: input("> "))


app.command(rich_help_panel=ANSWERS, epilog=epilog())(with_options(serve))


@app.command(
    rich_help_panel=MODELS,
    epilog=examples("slipstream distil --prompts questions.txt --out my-drafter --minutes 30"),
)
def distil(
    *,
    prompts: Annotated[
        list[Path],
        option("JSON, JSON lines, CSV, or a prompt a line; more may follow.", metavar="FILE..."),
    ],
    more_prompts: Annotated[list[Path] | None, typer.Argument(hidden=True)] = None,
    out: Annotated[Path, option("The drafter's folder, to be made.", metavar="FOLDER")],
    target: Target = None,
    answers: Annotated[
        Path | None,
        option("Keep the answers here, for the next drafter too.", metavar="FOLDER"),
    ] = None,
    minutes: Annotated[float | None, option("How long to work.", metavar="X", min=0.1)] = None,
    tokens: Annotated[
        int | None, option("Or: answer tokens to learn from.", metavar="N", min=1000)
    ] = None,
    vocabulary: Annotated[
        int, option("Tokens that the drafter can guess.", metavar="N", min=16)
    ] = 8192,
    longest_answer: Annotated[int, option("Tokens of an answer.", metavar="N", min=8)] = 160,
    resume: Annotated[bool, option("Continue where it stopped.", "--resume")] = False,
) -> None:
    """Make a drafter for a target, from the target's own answers."""
    from engine.distil.run import DistilOptions, distil

    errors = Console(stderr=True)
    options = DistilOptions(
        target=target_folder(target),
        prompts=(*prompts, *(more_prompts or ())),
        out=out,
        answers=answers,
        minutes=minutes,
        tokens=tokens,
        vocabulary=vocabulary,
        longest_answer=longest_answer,
        resume=resume,
    )

    def report(line: str) -> None:
        errors.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)

    with Awake():
        print(distil(options, report))


@app.command(
    "import",
    rich_help_panel=MODELS,
    epilog=examples("slipstream import model.gguf models/model"),
)
def import_model(
    *,
    source: Annotated[Path, argument("A GGUF file.", metavar="FILE")],
    folder: Annotated[Path, argument("The MLX model folder to make.", metavar="FOLDER")],
) -> None:
    """Turn a GGUF file into an MLX model folder."""
    from engine.cli.models.progress import bytes_bar
    from models.gguf.importing import import_gguf

    with bytes_bar(f"Importing {source.name}") as show:
        import_gguf(source, folder, progress=show)
    print(folder)


app.command(rich_help_panel=MODELS, epilog=CONVERT_EXAMPLES)(convert)  # as slipstream models has
app.add_typer(models_app, name="models", rich_help_panel=MODELS)


@app.command(rich_help_panel=MEASURE, epilog=examples("slipstream bench --drafter suffix+head"))
@with_options
def bench(
    macs: MacsOptions,
    *,
    target: Target = None,
    drafter: Annotated[
        list[str] | None, option("As for chat; repeatable.", panel=Panel.MODEL, metavar="DRAFTER")
    ] = None,
    draft_length: Annotated[
        list[str] | None, option("As for chat; repeatable.", panel=Panel.MODEL, metavar="LENGTH")
    ] = None,
    runner: Annotated[
        list[str] | None,
        option("As head/tree:8; repeatable.", panel=Panel.MODEL, metavar="DRAFTER/LENGTH"),
    ] = None,
    rule: Annotated[
        list[str] | None,
        option("Accept samples by block or by token; repeatable.", metavar="RULE"),
    ] = None,
    baselines: Annotated[
        bool, option("Run plain decoding too.", "--baselines/--no-baselines")
    ] = True,
    prompts: Annotated[
        Path | None,
        option(
            "Question sets, or a file with a prompt a line.", panel=Panel.QUESTIONS, metavar="PATH"
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        option(
            "Only this question set; repeatable.", "--set", panel=Panel.QUESTIONS, metavar="NAME"
        ),
    ] = None,
    attach: Annotated[
        bool, option("Ask about documents, to copy from.", "--attach", panel=Panel.QUESTIONS)
    ] = False,
    per_category: Annotated[
        int, option("Prompts from each category.", panel=Panel.QUESTIONS, metavar="N", min=1)
    ] = 2,
    max_tokens: Annotated[
        int, option("Tokens of the longest answer.", panel=Panel.QUESTIONS, metavar="N", min=2)
    ] = 100,
    temperature: Annotated[
        list[float] | None, option("0: greedy; repeatable.", panel=Panel.QUESTIONS, metavar="X")
    ] = None,
    seed: Annotated[
        int,
        option("The first prompt's; the next has one more.", panel=Panel.QUESTIONS, metavar="N"),
    ] = 0,
    repeats: Annotated[
        int, option("Runs of each prompt.", panel=Panel.QUESTIONS, metavar="N", min=1)
    ] = 1,
    cool_down: Annotated[
        float,
        option("Rest if heat slows it by more %; 0: never.", metavar="X", min=0, max=100),
    ] = 15.0,
    out: Annotated[
        Path | None, option("Write all figures to a JSON file.", panel=Panel.REPORT, metavar="FILE")
    ] = None,
    markdown: Annotated[
        Path | None, option("Write the tables to a file.", panel=Panel.REPORT, metavar="FILE")
    ] = None,
    from_: Annotated[
        Path | None,
        option(
            "Show reports of --out, and measure nothing.",
            "--from",
            panel=Panel.REPORT,
            metavar="PATH",
        ),
    ] = None,
) -> None:
    """Measure drafting beside plain decoding and mlx-lm."""
    from engine.bench.options import BenchOptions
    from engine.bench.render import check_place, show, show_kept
    from engine.bench.run import run_bench

    console, errors = Console(), Console(stderr=True)
    check_place(markdown)
    if from_ is not None:
        show_kept(from_, console, to=markdown)
        return
    alone = runner and not drafter and not draft_length
    options = BenchOptions(
        target=target_folder(target),
        drafters=() if alone else tuple(drafter or [DEFAULT_DRAFTER]),
        lengths=() if alone else tuple(draft_length or ["auto", "4"]),
        runners=tuple(runner or ()),
        prompts=prompts,
        attach=attach,
        sets=tuple(set_ or ()),
        per_category=per_category,
        max_tokens=max_tokens,
        temperatures=tuple(temperature or [0.0, 0.8]),
        rules=tuple(rule or ["block"]),
        seed=seed,
        repeats=repeats,
        baselines=baselines,
        cool_down=cool_down / 100,
        out=out,
    )
    with leading(macs.macs) as led, Awake():
        measured = run_bench(
            options,
            progress=lambda line: errors.print(line, style="dim", markup=False),
            load_target=partial(led.load, macs=macs.macs) if macs.hosts else None,
        )
    show(measured.report(), console, to=markdown)


@app.command(rich_help_panel=MEASURE, epilog=examples("slipstream doctor --no-pair"))
def doctor(
    *,
    target: Target = None,
    drafter: Drafter = DEFAULT_DRAFTER,
    pair: Annotated[bool, option("Try a pair too.", "--pair/--no-pair")] = True,
    json: Json = False,
) -> None:
    """Say how this machine runs a pair, and what to change."""
    from json import dumps

    from engine.cli.doctor import diagnose, show_check, starter_if_here

    console = Console()
    find = starter_if_here if target is None else lambda: target_folder(target)
    found = diagnose(
        find if pair else None,
        drafter,
        show=lambda check: None if json else show_check(check, console),
    )
    if json:
        print(dumps(found.to_json()))
    raise typer.Exit(0 if found.usable else 1)


@app.command(rich_help_panel=MEASURE, epilog=examples("slipstream kept --forget"))
def kept(*, forget: Annotated[bool, option("Delete all of it.", "--forget")] = False) -> None:
    """Say what is kept on disk of documents, or delete it."""
    from engine.conversation.kept_blocks import forget_all, held_bytes, kept_blocks_folder
    from models.in_words import size

    folder = kept_blocks_folder()
    held = held_bytes(folder)
    if not forget:
        print(f"{size(held)} in {folder}")
        return
    try:
        forget_all(folder)
    except OSError as error:
        raise Problem(
            f"What is kept in {folder} cannot be deleted: {error.strerror or error}.",
            "Check that you may write there, and that no other program uses it.",
        ) from error
    print(f"Deleted; {size(held)} freed.")


app.add_typer(cluster_app, name="cluster", rich_help_panel=MEASURE)


@app.command(hidden=True)
def host() -> None:
    """Serve the window, by JSON lines on the standard streams."""
    from engine.process.host import main as serve

    serve()


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise Problem("The prompt is not UTF-8.", "Convert it to UTF-8.") from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A `Problem` ends it with one line, and status 2, or 1 for `Lost`."""
    if arguments is None and sys.argv[1:2] == ["distil"]:
        restart_with_any_kernels()
    try:
        app(arguments)
    except Problem as problem:
        say_problem(problem)
        sys.exit(1 if isinstance(problem, Lost) else 2)
