"""The command line: `slipstream`, or `python -m engine`.

Every failure that the user can act on ends here, as one line, with exit code 2.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import MISSING, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.agent import agent
from engine.cli.cluster import app as cluster_app
from engine.cli.folders import target_folder
from engine.cli.line_child import Lost
from engine.cli.models.commands import CONVERT_EXAMPLES, convert
from engine.cli.models.commands import app as models_app
from engine.cli.options import (
    AS_JSON,
    DEFAULT_DRAFTER,
    DRAFTER_BITS,
    MAX_TOKENS,
    TARGET,
    WORDS,
    AnswerOptions,
    DrafterBits,
    PairOptions,
    Panel,
    TargetOptions,
    bits_of,
    described,
    examples,
    option,
    with_options,
)
from engine.cli.serve import epilog, serve
from engine.cli.streams import let_go, mend_streams, new_console
from engine.command_buffers import larger_buffers
from engine.cpu.blas import restart_with_any_kernels
from engine.exactness import Wish
from engine.request import Overflow
from engine.tools.configuration import configuration_file
from models.errors import Problem, problem_of
from models.files import data_folder, written_path
from models.in_words import clean
from models.this_process import Awake

_TEXTS = ("--prompt", "--regex", "--stop", "--system")  # options whose value may be any text
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


def _print_version(asked: bool) -> None:
    if asked:
        print(f"Slipstream {metadata.version('slipstream')}")
        raise typer.Exit


@app.callback()
def _slipstream(
    *,
    version: Annotated[
        bool,
        described("Print the version.", "", "--version", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Local chat that answers faster without changing what it says."""
    from models.network import network_variables

    if network_variables():
        import models.hub  # noqa: F401  # names one at which other libraries only fail


@app.command(hidden=True)
def rank(place: str, backend: str) -> None:
    """Run one of the ranks that MLX's launcher starts on several Macs."""
    from engine.process.rank import main as be_a_rank

    be_a_rank(place, backend)


@app.command(hidden=True)
def tools_host() -> None:
    """Run the tool servers for the process that started this one."""
    from engine.tools.host import main as run_servers

    run_servers()


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(AnswerOptions):
    """Also the options of a single answer."""

    prompt: str = option(MISSING, "The prompt; - reads it from standard input.", "TEXT")
    json: bool = option(False, "Print events as JSON, one a line.", "", "--json")
    passages: bool = option(
        *(False, "Of a long file, give the model only relevant passages.", "", "--passages"),
        panel=Panel.DOCUMENTS,
    )
    allow: list[str] | None = option(
        *(None, "Run this tool without asking; refuse others. Repeatable.", "NAME"),
        panel=Panel.TOOLS,
    )


@app.command(
    rich_help_panel=ANSWERS,
    epilog=examples(
        "slipstream generate --prompt 'Why is the sky blue?' --temperature 0",
        "slipstream generate --prompt 'Who signs it?' --attach contract.pdf",
        "slipstream generate --prompt 'Describe this picture.' --image photo.jpg",
        "slipstream generate --prompt 'List /tmp.' --tools mcp.json --allow list_directory",
        words=WORDS,
    ),
)
@with_options
def generate(options: GenerateOptions) -> None:
    """Answer one prompt and exit."""
    from engine.cli.attaching import Attachments, cache_documents, read_attached
    from engine.cli.sessions import open_session, show_remarks
    from engine.cli.terminal import answer_view, closing_remarks, show_closing
    from engine.cli.tools import AnswerInSteps, open_tools
    from engine.conversation.stats import tally
    from engine.documents.reading import normalize, read_document
    from engine.events import to_json
    from engine.request import ChatMessage

    text = sys.stdin.read() if options.prompt == "-" else options.prompt
    if not text.strip():
        raise Problem("The prompt is empty.", "Write a question after --prompt.")
    if options.passages and not options.attach:
        raise Problem("No file is attached.", "Attach one with --attach FILE.")
    errors, request = new_console(errors=True), options.request()
    documents = [read_attached(path, errors, read_document) for path in options.attach or ()]
    with (
        open_tools(options.tools, errors, allowed=options.allow or ()) as tools,
        closing(open_session(options, quiet=options.json)) as session,
        closing(Attachments(session, errors, documents)) as attachments,
    ):
        request = replace(request, keep_as=attachments.digests)
        for path in options.image or ():
            attachments.show_picture(path, normalize)
        before = [ChatMessage("system", options.system)] * bool(options.system)
        asked = attachments.write(
            text, request, before=before, more=False, passages=options.passages
        )
        count = attachments.count
        answer = AnswerInSteps(session.answer, [*before, asked], request, tools, count=count)
        if options.json:
            for events in answer.generations():
                for event in events:
                    print(to_json(event), flush=True)
            cache_documents(session)
            return
        for events in answer.generations():
            with closing(answer_view(new_console())) as view:
                for event in events:
                    view.show(event)
        show_closing(errors, tally(answer.events))
        attachments.show_copied(answer.content)
        show_remarks(*closing_remarks(answer.events))
        show_remarks(*cache_documents(session))


@dataclass(frozen=True, kw_only=True)
class ChatOptions(AnswerOptions):
    """Also the option of a conversation that grows."""

    max_tokens: int = option(1024, *MAX_TOKENS, panel=Panel.ANSWER, min=1)
    overflow: Overflow = option(
        "middle", "When the context is full: middle, rolling, stop.", "HOW", panel=Panel.ANSWER
    )


@app.command(
    rich_help_panel=ANSWERS, epilog=examples("slipstream chat --attach FOLDER", words=WORDS)
)
@with_options
def chat(options: ChatOptions) -> None:
    """Chat, and watch each guess being accepted or struck out."""
    from engine.cli.attaching import Attachments, read_attached
    from engine.cli.chat import TerminalChat
    from engine.cli.sessions import open_session
    from engine.cli.tools import open_tools
    from engine.documents.reading import normalize, read_document

    console = new_console()
    request = options.request(overflow=options.overflow)
    documents = [read_attached(path, console, read_document) for path in options.attach or ()]
    with (
        open_tools(options.tools, console) as tools,
        closing(open_session(options)) as session,
        closing(Attachments(session, console, documents)) as attachments,
    ):
        with suppress(ImportError):
            import readline  # noqa: F401  # gives input() its line editing
        for path in options.image or ():
            attachments.show_picture(path, normalize)
        terminal = TerminalChat(
            session, console, request, attachments, tools=tools, system=options.system
        )
        terminal.run(lambda: input("> "))


app.command(rich_help_panel=ANSWERS, epilog=epilog())(serve)
app.command(
    rich_help_panel=ANSWERS,
    epilog=examples("slipstream agent claude --target MODEL -- --continue", words=WORDS),
)(agent)


@app.command(
    rich_help_panel=MODELS,
    epilog=examples("slipstream distil --prompts questions.txt --out my-drafter --minutes 30"),
)
def distil(
    *,
    prompts: Annotated[
        list[Path],
        described("Prompts: JSON, JSON lines, CSV, or one a line.", "FILE..."),
    ],
    more_prompts: Annotated[
        list[Path] | None, typer.Argument(hidden=True, parser=written_path)
    ] = None,
    out: Annotated[Path, described("The new drafter's folder.", "FOLDER")],
    target: Annotated[str | None, described(*TARGET)] = None,
    answers: Annotated[
        Path | None, described("Save the answers here, to reuse them.", "FOLDER")
    ] = None,
    minutes: Annotated[float | None, described("Minutes to work.", "X", min=0.1)] = None,
    tokens: Annotated[
        int | None, described("Instead of minutes: answer tokens to learn from.", "N", min=1000)
    ] = None,
    vocabulary: Annotated[int, described("Tokens that it can guess.", "N", min=16)] = 8192,
    longest_answer: Annotated[int, described("Tokens an answer, at most.", "N", min=8)] = 160,
    resume: Annotated[bool, described("Continue an interrupted run.", "", "--resume")] = False,
) -> None:
    """Train a drafter for a target on the target's own answers."""
    from engine.distil.budget import WorkBudget
    from engine.distil.run import DistilOptions, distil

    errors = new_console(errors=True)
    WorkBudget(minutes, tokens)  # a wrong one is refused before a target is fetched
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


app.command(rich_help_panel=MODELS, epilog=CONVERT_EXAMPLES)(convert)  # as slipstream models has
app.add_typer(models_app, name="models", rich_help_panel=MODELS)


_pair, _question, _report = (
    partial(option, panel=panel) for panel in (Panel.MODEL, Panel.QUESTIONS, Panel.REPORT)
)


@dataclass(frozen=True, kw_only=True)
class BenchCommand(TargetOptions):
    """The options of a benchmark, as the user writes them."""

    drafter: list[str] | None = _pair(None, "Drafters to compare; repeatable.", "DRAFTER")
    drafter_bits: DrafterBits = _pair("auto", *DRAFTER_BITS)
    draft_length: list[str] | None = _pair(None, "Draft lengths; repeatable.", "LENGTH")
    runner: list[str] | None = _pair(None, "DRAFTER/LENGTH, as head/tree:8; repeatable.", "RUNNER")
    exact: Wish = _pair("auto", "Exactly the text of plain decoding.", "EXACT")
    baselines: bool = option(True, "Run plain decoding too.", "", "--baselines/--no-baselines")
    prompts: Path | None = _question(None, "A file with one prompt a line.", "PATH")
    per_category: int = _question(2, "Prompts from each category.", "N", min=1)
    max_tokens: int = _question(100, *MAX_TOKENS, min=2)
    temperature: list[float] | None = _question(None, "0 is greedy; repeatable.", "X")
    seed: int = _question(0, "Seed of the first prompt; it grows by 1.", "N")
    repeats: int = _question(1, "Runs of each prompt.", "N", min=1)
    out: Path | None = _report(None, "Write all figures to this JSON file.", "FILE")
    markdown: Path | None = _report(None, "Write the tables to this file.", "FILE")
    from_: Path | None = _report(None, "Show saved reports, measure nothing.", "PATH", "--from")


@app.command(
    rich_help_panel=MEASURE, epilog=examples("slipstream bench --drafter suffix+head", words=WORDS)
)
@with_options
def bench(options: BenchCommand) -> None:
    """Compare drafting with plain decoding and with mlx-lm."""
    os.environ.update(larger_buffers(options.target))  # before MLX is imported
    from engine.bench.options import BenchOptions
    from engine.bench.report import check_places, show, show_kept
    from engine.bench.run import run_bench

    console, errors = new_console(), new_console(errors=True)
    check_places(options.markdown, options.out)
    if options.from_ is not None:
        show_kept(options.from_, console, to=options.markdown)
        return
    alone = options.runner and not options.drafter and not options.draft_length
    chosen = BenchOptions(
        target=target_folder(options.target),
        drafters=() if alone else tuple(options.drafter or [DEFAULT_DRAFTER]),
        drafter_bits=bits_of(options.drafter_bits),
        lengths=() if alone else tuple(options.draft_length or ["auto", "4"]),
        runners=tuple(options.runner or ()),
        prompts=options.prompts,
        per_category=options.per_category,
        max_tokens=options.max_tokens,
        temperatures=tuple(options.temperature or [0.0, 0.8]),
        seed=options.seed,
        repeats=options.repeats,
        baselines=options.baselines,
        out=options.out,
        exact=options.exact,
    )
    with Awake():
        measured = run_bench(
            chosen, progress=lambda line: errors.print(line, style="dim", markup=False)
        )
    show(measured.report(), console, to=options.markdown)


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(PairOptions):
    """The options of a diagnosis."""

    pair: bool = option(True, "Test a target and drafter too.", "", "--pair/--no-pair")
    json: bool = option(False, *AS_JSON)


@app.command(
    rich_help_panel=MEASURE,
    epilog=examples("slipstream doctor --target MODEL", words=("MODEL", "DRAFTER")),
)
@with_options
def doctor(options: DoctorOptions) -> None:
    """Check this machine and a pair, and say what to change."""
    from json import dumps

    os.environ.update(larger_buffers(options.target))
    from engine.cli.doctor import diagnose, show_check, starter_if_here

    console, target = new_console(), options.target
    find = starter_if_here if target is None else lambda: target_folder(target)
    found = diagnose(
        find if options.pair else None,
        options.drafter,
        bits=bits_of(options.drafter_bits),
        show=lambda check: None if options.json else show_check(check, console),
    )
    if options.json:
        print(dumps(found.to_json()))
    raise typer.Exit(0 if found.usable else 1)


@app.command(rich_help_panel=MEASURE, epilog=examples("slipstream cache --clear"))
def cache(*, clear: Annotated[bool, described("Delete it.", "", "--clear")] = False) -> None:
    """Show the size of the prompt cache on disk, or delete it."""
    from engine.conversation.kept_blocks import forget_all, held_bytes, kept_blocks_folder
    from models.in_words import size

    folder = kept_blocks_folder()
    held = held_bytes(folder)
    if not clear:
        print(f"{size(held)} in {folder}")
        return
    forget_all(folder)
    print(f"Deleted; {size(held)} freed.")


app.add_typer(cluster_app, name="cluster", rich_help_panel=MEASURE)


@app.command(hidden=True)
def host() -> None:
    """Serve the window, by JSON lines on the standard streams."""
    from engine.process.host import main as serve

    serve()


def _print_problem(problem: Problem) -> None:
    """Print a problem in one line on standard error, cleaned: a model's files may have a say."""
    line = clean(" ".join(str(problem).split()))
    with suppress(OSError):  # the disk may be full
        print(f"slipstream: {line}", file=sys.stderr, flush=True)


def _with_own_tools(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with our own file after a `--tools` that names none.

    The value of another option stays, as does everything after `--`, which another program reads.
    """
    found: list[str] = []
    for place, word in enumerate(arguments):
        if word == "--":
            return [*found, *arguments[place:]]
        found.append(word)
        after = arguments[place + 1 : place + 2]
        ours = arguments[place - 1] not in _TEXTS and (not after or after[0].startswith("-"))
        if word == "--tools" and ours:
            found.append(str(configuration_file(data_folder())))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A `Problem` (a full disk is one) ends it with one line and status 2,
    `Lost` with status 1."""
    mend_streams()
    if arguments is None and sys.argv[1:2] == ["distil"]:
        restart_with_any_kernels()
    try:
        try:
            app(_with_own_tools(sys.argv[1:] if arguments is None else arguments))
        finally:
            sys.stdout.flush()  # while a failure can still be reported
    except BrokenPipeError:  # the reader has gone
        sys.exit(1)
    except KeyboardInterrupt:  # before a command has begun
        sys.exit(130)
    except Exception as error:
        if (problem := problem_of(error)) is None:
            raise
        _print_problem(problem)
        sys.exit(1 if isinstance(problem, Lost) else 2)
    finally:
        let_go(sys.stdout, sys.stderr)
