"""The command line: `slipstream`, or `python -m engine`.

Every failure that a person can act on ends here, as one line, with exit code 2.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import uuid4

import typer
from rich.console import Console

from engine.cli.cluster import app as cluster_app
from engine.cli.models.commands import app as models_app
from engine.cli.models.commands import convert
from engine.cli.pair_options import (
    DEFAULT_DRAFTER,
    Drafter,
    DraftLengthOption,
    Learn,
    Target,
    learning_folder,
    target_folder,
)
from engine.cli.serve import epilog, serve
from engine.cli.several_macs import HostsFile, ModeOption, TrustNetwork, chosen_macs, leading
from engine.cpu.blas import restart_with_any_kernels
from engine.request import Overflow
from models.errors import Problem
from models.this_process import Awake

if TYPE_CHECKING:
    from engine.conversation.loading import LoadedModel
    from engine.conversation.session import Session
    from engine.request import Grammar, Sampling

ThinkingWish = Literal["on", "off", "minimal", "low", "medium", "high", "xhigh", "max"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

System = Annotated[str, typer.Option(help="The system prompt.")]
Temperature = Annotated[
    float | None,
    typer.Option(help="0 is greedy. Without any sampling option the model's own default holds."),
]
TopK = Annotated[int | None, typer.Option(help="Keep the k likeliest tokens; 0 keeps all.")]
TopP = Annotated[
    float | None, typer.Option(help="Keep the likeliest tokens of this mass; 1 keeps all.")
]
MinP = Annotated[float | None, typer.Option(help="Drop tokens below this share of the likeliest.")]
Seed = Annotated[int | None, typer.Option(help="The same seed writes the same text.")]
Thinking = Annotated[
    ThinkingWish | None,
    typer.Option(
        help="Whether the model thinks before it answers, or with how much effort; without it, as "
        "its makers say."
    ),
]
MaxTokens = Annotated[int, typer.Option(min=1, help="The longest answer.")]
Context = Annotated[
    int | None, typer.Option(min=2, help="Tokens of a conversation that memory is kept for.")
]

Attach = Annotated[
    list[Path] | None,
    typer.Option(help="A file or a folder that the model gets; repeatable."),
]
Keep = Annotated[
    bool,
    typer.Option(
        help="Keep on disk what the model has read of the attached files, so that the next "
        "question about them is answered at once: slipstream kept."
    ),
]

Measure = Annotated[
    bool, typer.Option("--measure", help="Calibrate the pair again, in place of what is stored.")
]

Drafters = Annotated[list[str] | None, typer.Option("--drafter", help="Repeatable.")]
Prompts = Annotated[
    Path | None,
    typer.Option(help="A folder of public question sets, or a text file, a prompt a line."),
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="Only this question set; repeatable.")
]
PerCategory = Annotated[int, typer.Option(min=1, help="Prompts from each category.")]
Temperatures = Annotated[list[float] | None, typer.Option("--temperature", help="Repeatable.")]


def _tell_version(asked: bool) -> None:
    if asked:
        print(f"Slipstream {metadata.version('slipstream')}")
        raise typer.Exit


@app.callback()
def _slipstream(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Print which version this is."
        ),
    ] = False,
) -> None:
    """Local chat that answers faster without changing what it says."""


@app.command(hidden=True)
def follow() -> None:
    """Obey the Slipstream that started this, on this Mac or another."""
    from engine.cluster.follow import main as obey

    obey()


@app.command()
def generate(
    *,
    prompt: Annotated[str, typer.Option(help="What to answer; - reads it from standard input.")],
    target: Target = None,
    drafter: Drafter = DEFAULT_DRAFTER,
    draft_length: DraftLengthOption = "auto",
    system: System = "",
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="1 is off.")] = None,
    presence_penalty: Annotated[float | None, typer.Option(help="0 is off.")] = None,
    frequency_penalty: Annotated[float | None, typer.Option(help="0 is off.")] = None,
    seed: Seed = None,
    thinking: Thinking = None,
    max_tokens: MaxTokens = 512,
    context: Context = None,
    measure: Measure = False,
    learn: Learn = False,
    attach: Attach = None,
    keep: Keep = True,
    hosts: HostsFile = None,
    trust_network: TrustNetwork = False,
    mode: ModeOption = "auto",
    section_by_section: Annotated[
        bool,
        typer.Option(
            "--section-by-section",
            help="Ask of each part of the attached files, then of the notes: for what passages "
            "cannot answer, such as counting and summing up.",
        ),
    ] = False,
    stop: Annotated[list[str] | None, typer.Option(help="Ends the answer; repeatable.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="Answer in JSON that obeys the JSON schema in this file.")
    ] = None,
    regex: Annotated[
        str | None, typer.Option(help="Answer with a text that this regular expression matches.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one event per line.")] = False,
) -> None:
    """Answer one prompt and exit."""
    from dataclasses import replace

    from engine.cli.attaching import Attachments, keep_what_was_read, read_attached
    from engine.cli.terminal import answer_view, closing_remarks, show_closing
    from engine.conversation.pair_costs import Remark
    from engine.conversation.stats import tally
    from engine.documents.reading import read_document
    from engine.events import Event, Text, to_json
    from engine.request import ChatMessage, Request

    sampling = _sampling(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
    )
    grammar, macs = _grammar(schema, regex), chosen_macs(hosts, trust_network, mode)
    text = _standard_input() if prompt == "-" else prompt
    if not text.strip():
        raise Problem("The prompt is empty.", "Write something to answer.")
    if section_by_section and not attach:
        raise Problem("No file is attached.", "Name one with --attach.")
    errors = Console(stderr=True)
    documents = [read_attached(path, errors, read_document) for path in attach or ()]
    with leading(macs) as led:
        session = open_session(
            target,
            drafter,
            draft_length,
            context,
            measure=measure,
            learn=learn,
            quiet=json,
            attach=bool(attach),
            keep=keep,
            load=partial(led.load, macs=macs) if macs.hosts else None,
        )
        request = Request(
            sampling=replace(sampling or session.target.sampling, seed=seed),
            max_tokens=max_tokens,
            stops=tuple(stop or ()),
            grammar=grammar,
            keep_as=tuple(document.digest for document in documents),
        )
        before = [ChatMessage("system", system)] * bool(system)
        with closing(Attachments(session, errors, documents)) as attachments:
            if section_by_section:
                asked = attachments.write_by_section(text, request, before=before)
            else:
                asked = attachments.write(text, request, before=before, more=False)
        messages = [*before, asked]
        answer = session.answer(
            messages,
            request,
            thinking=thinking or "",
            generation=uuid4().hex,
            compare=lambda: True,
        )
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
        _show_remarks(*closing_remarks(events))
        if session.disturbed:
            _show_remarks(Remark.BUSY_ANSWERING.value)
        _show_remarks(*keep_what_was_read(session))


@app.command()
def chat(
    *,
    target: Target = None,
    drafter: Drafter = DEFAULT_DRAFTER,
    draft_length: DraftLengthOption = "auto",
    system: System = "",
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    seed: Seed = None,
    thinking: Thinking = None,
    max_tokens: MaxTokens = 1024,
    context: Context = None,
    measure: Measure = False,
    learn: Learn = False,
    attach: Attach = None,
    keep: Keep = True,
    overflow: Annotated[
        Overflow,
        typer.Option(
            help="A chat that is longer than the context stops, or is read without its oldest "
            "turns, or without those behind the first."
        ),
    ] = "middle",
    hosts: HostsFile = None,
    trust_network: TrustNetwork = False,
    mode: ModeOption = "auto",
) -> None:
    """Chat in the terminal, and watch every drafted token being accepted or struck out."""
    from dataclasses import replace

    from engine.cli.attaching import Attachments, read_attached
    from engine.cli.chat import TerminalChat
    from engine.cli.child_session import ChildSession
    from engine.conversation.session import Session
    from engine.documents.reading import read_document
    from engine.process.protocol import Load, Memory
    from engine.request import Request

    sampling = _sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    console = Console()
    documents = [read_attached(path, console, read_document) for path in attach or ()]
    macs = chosen_macs(hosts, trust_network, mode)
    session: Session | ChildSession
    if macs.hosts:
        folder = target_folder(target)
        learning_folder(learn)
        load = Load(
            *("chat", str(folder.path), drafter, draft_length, Memory(context or 0)),
            parallel=1,
            learn=learn,
            keep_bytes=None if keep else 0,
            macs=macs,
        )
        session = ChildSession(load, folder, tell=_show_remarks)
        if measure:
            _show_remarks(*filter(None, [session.measure()]))
    else:
        session = open_session(
            target,
            drafter,
            draft_length,
            context,
            measure=measure,
            learn=learn,
            attach=bool(attach),
            keep=keep,
        )
    sampling = replace(sampling or session.target.sampling, seed=seed)
    request = Request(sampling=sampling, max_tokens=max_tokens, overflow=overflow)
    with suppress(ImportError):
        import readline  # noqa: F401  # gives input() its line editing
    with closing(Attachments(session, console, documents)) as attachments:
        terminal = TerminalChat(
            session, console, request, attachments, system=system, thinking=thinking or ""
        )
        try:
            terminal.run(lambda: input("> "))
        finally:
            if isinstance(session, ChildSession):
                session.close()


@app.command()
def bench(
    *,
    target: Target = None,
    drafter: Drafters = None,
    draft_length: Annotated[
        list[str] | None,
        typer.Option("--draft-length", metavar="N|tree:N|auto", help="Repeatable."),
    ] = None,
    runner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DRAFTER/LENGTH",
            help="A drafter with one length, head/tree:8 say, beside each drafter with each "
            "length where these are named; repeatable.",
        ),
    ] = None,
    prompts: Prompts = None,
    set_: Sets = None,
    attach: Annotated[
        bool, typer.Option("--attach", help="Ask about documents: answers that copy from them.")
    ] = False,
    per_category: PerCategory = 2,
    max_tokens: Annotated[int, typer.Option(min=2, help="The longest answer.")] = 100,
    temperature: Temperatures = None,
    rule: Annotated[
        list[str] | None,
        typer.Option(help="The acceptance rule for samples: block, token; repeatable."),
    ] = None,
    seed: Annotated[int, typer.Option(help="For the first prompt; counts up.")] = 0,
    repeats: Annotated[int, typer.Option(min=1)] = 1,
    baselines: Annotated[
        bool, typer.Option(help="Run plain decoding too; without it, acceptance is all there is.")
    ] = True,
    cool_down: Annotated[
        float, typer.Option(min=0, max=100, help="Rest once heat slows it so much, %; 0: never.")
    ] = 15.0,
    out: Annotated[Path | None, typer.Option(help="Write all figures to this JSON file.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables to this file.")] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from", help="Measure nothing: show a report of --out, or a folder of them."
        ),
    ] = None,
    hosts: HostsFile = None,
    trust_network: TrustNetwork = False,
    mode: ModeOption = "auto",
) -> None:
    """Compare with plain decoding and with mlx-lm, side by side, on this machine."""
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
    macs = chosen_macs(hosts, trust_network, mode)
    with leading(macs) as led, Awake():
        measured = run_bench(
            options,
            progress=lambda line: errors.print(line, style="dim", markup=False),
            load_target=partial(led.load, macs=macs) if macs.hosts else None,
        )
    show(measured.report(), console, to=markdown)


@app.command()
def doctor(
    *,
    target: Target = None,
    drafter: Drafter = DEFAULT_DRAFTER,
    pair: Annotated[
        bool, typer.Option(help="Try a pair too; without it, only the machine is looked at.")
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON instead.")] = False,
) -> None:
    """Say what this machine has, whether a pair runs well on it, and what to change."""
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


@app.command()
def distil(
    *,
    prompts: Annotated[
        list[Path],
        typer.Option(help="JSON, JSON lines, CSV or a prompt a line; more files may follow it."),
    ],
    more_prompts: Annotated[list[Path] | None, typer.Argument(hidden=True)] = None,
    out: Annotated[Path, typer.Option(help="The drafter's folder, to be made.")],
    target: Target = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            help="A folder that keeps the answers. A second drafter learns from those in it."
        ),
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="How long to work.")] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1000, help="Answer tokens to learn from, instead.")
    ] = None,
    vocabulary: Annotated[
        int, typer.Option(min=16, help="Tokens that the drafter can propose.")
    ] = 8192,
    longest_answer: Annotated[int, typer.Option(min=8, help="Tokens of an answer.")] = 160,
    resume: Annotated[bool, typer.Option("--resume", help="Continue where it stopped.")] = False,
) -> None:
    """Make a drafter for a target: it learns from the target's own answers."""
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


@app.command()
def kept(
    *,
    forget: Annotated[bool, typer.Option("--forget", help="Delete all of it.")] = False,
) -> None:
    """Say what is kept on disk of documents that were read, or delete it."""
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


@app.command("import")
def import_model(
    *,
    source: Annotated[Path, typer.Argument(help="A GGUF file.")],
    folder: Annotated[Path, typer.Argument(help="The MLX model folder to make.")],
) -> None:
    """Turn a GGUF file into an MLX model folder."""
    from engine.cli.models.progress import bytes_bar
    from models.gguf.importing import import_gguf

    with bytes_bar(f"Importing {source.name}") as show:
        import_gguf(source, folder, progress=show)
    print(folder)


app.command()(convert)  # which slipstream models has too
app.add_typer(models_app, name="models")
app.add_typer(cluster_app, name="cluster")


app.command(epilog=epilog())(serve)


@app.command()
def host() -> None:
    """Serve the window: JSON lines on standard input and output."""
    from engine.process.host import main as serve

    serve()


def open_session(
    target: str | None,
    drafter: str,
    draft_length: str,
    context: int | None = None,
    *,
    measure: bool = False,
    learn: bool = False,
    quiet: bool = False,
    attach: bool = False,
    keep: bool = False,
    load: "Callable[..., LoadedModel] | None" = None,
) -> "Session":
    """A session with this pair, loaded, if `context` tokens fit into memory with it.

    With `measure` the pair is calibrated again; with `learn` it drafts from earlier answers too;
    with `attach` the context is, unless it is given, as long as memory has room for; with `keep`
    what is read of documents is kept on disk, where a request says so. `load` loads the target
    elsewhere, as `LedMacs.load`, and finds out whether it fits.
    Steps that take time are reported on standard error, unless `quiet`.
    """
    from dataclasses import replace

    from engine.cli.models.progress import Steps
    from engine.conversation.kept_blocks import KeptBlocks, kept_blocks_folder
    from engine.conversation.loading import load as load_here
    from engine.conversation.pair import make_policy, require_pair
    from engine.conversation.session import Session
    from engine.draft_length.calibrations import CalibrationStore, calibration_folder
    from engine.process.protocol import Memory
    from models.installed.last_used import mark_used
    from models.installed.resolve import resolve_drafters
    from models.memory.fit import DEFAULT_CONTEXT

    console = Console(stderr=True, quiet=quiet)
    steps = Steps(console)
    policy = make_policy(draft_length)
    calibrations = CalibrationStore(calibration_folder())
    folder = target_folder(target, steps)
    drafters = resolve_drafters(drafter, folder)
    fit = None
    if load is None:
        fit = require_pair(folder, drafters, context=context or DEFAULT_CONTEXT)
    if attach and context is None and fit is not None:
        context = fit.largest_context
    steps.begin("loading")
    if load is None:
        model = load_here(folder)
    else:
        model = load(folder, drafters=drafters, memory=Memory(context or 0))
    mark_used(folder.path)
    if context is not None:
        model = replace(model, context_length=min(context, model.context_length))
    session = Session(
        model,
        drafter=drafters,
        policy=policy,
        calibrations=calibrations,
        earlier=learning_folder(learn),
        kept=KeptBlocks(kept_blocks_folder()) if keep else None,
    )
    with console.status("Reading what drafting costs here") as status:
        measuring = False

        def show(share: float) -> None:
            nonlocal measuring
            if not measuring:  # which takes a few seconds: no need to report it to a file
                line = "Measuring what drafting costs on this machine, once"
                steps.begin("measuring", line if console.is_terminal else "")
            measuring = True
            status.update(f"{share:.0%}")

        remarks = session.calibrate(progress=show, again=measure)
    steps.end()
    _show_remarks(*(remark.value for remark in remarks))
    return session


def _sampling(**chosen: float | None) -> "Sampling | None":
    """What was chosen, all else off; None where nothing was."""
    from engine.request import Sampling

    values: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    return Sampling(**values) if values else None


def _grammar(schema: Path | None, regex: str | None) -> "Grammar | None":
    """What an answer must look like, where that was chosen."""
    from engine.request import Grammar

    if schema is not None and regex is not None:
        raise Problem("There are a schema and a regular expression.", "Give one of them.")
    if schema is not None:
        try:
            return Grammar("json schema", schema.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise Problem(
                f"{schema} cannot be read as text: {error}.", "Give a file with a JSON schema."
            ) from error
    return None if regex is None else Grammar("regex", regex)


def _show_remarks(*remarks: str) -> None:
    """Print what a person should know beside the answer."""
    for remark in remarks:
        Console(stderr=True).print(remark, style="yellow", highlight=False, soft_wrap=True)


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise Problem("The prompt is not UTF-8.", "Convert it to UTF-8.") from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; after a `Problem` it exits with 2, and one line that names it."""
    if arguments is None and sys.argv[1:2] == ["distil"]:
        restart_with_any_kernels()
    try:
        app(arguments)
    except Problem as problem:
        from models.in_words import clean

        # Some of it may come from a model's files.
        print(f"slipstream: {clean(' '.join(str(problem).split()))}", file=sys.stderr)
        sys.exit(2)
