"""The session of a command that answers: in this process, or in a child process if several Macs
hold the target.

Knows how a pair is found and loaded, and reports the steps that take time.
"""

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from rich.console import Console

from engine.bench.enough_bits import try_bits
from engine.cli.child_session import ChildSession
from engine.cli.folders import learning_folder, target_folder
from engine.cli.models.progress import Steps
from engine.cli.options import AnswerOptions
from engine.conversation.loading import load
from engine.conversation.pair import make_policy, require_pair
from engine.conversation.proof import settle
from engine.conversation.session import Session
from engine.draft_length.calibrations import CalibrationStore, calibration_folder
from engine.earlier_answers import earlier_answers_folder
from engine.process.host import kept_blocks, quantized_caches
from engine.process.protocol import Load
from models.installed.last_used import mark_used
from models.installed.resolve import resolve_drafters
from models.memory.fit import DEFAULT_CONTEXT
from models.model_folder import ModelFolder


class LocalSession(Session):
    """A session in this process whose drafting can be changed, as a `ChildSession`'s can.

    Attribute: `drafter_bits`, the bits of drafters that are loaded later: see `resolve_drafters`.
    """

    drafter_bits = 0

    def draft(self, *, drafter: str | None = None, draft_length: str | None = None) -> str:
        """Change drafter or draft length. Returns a remark for the user, mostly "". Raises
        `Problem`."""
        if drafter is not None:
            folder, bits = self.target.folder, self.drafter_bits
            self.use_drafter(resolve_drafters(drafter, folder, bits=bits))
        if draft_length is not None:
            self.policy = make_policy(draft_length)
        return " ".join(remark.value for remark in self.calibrate())

    def close(self) -> None:
        """Do nothing: this session has no other process."""


AnySession = LocalSession | ChildSession


def open_session(options: AnswerOptions, *, quiet: bool = False) -> AnySession:
    """Load the pair of these options, and return its session. Raises `Problem`.

    Steps that take time are reported to standard error, unless `quiet`.
    """
    make_policy(options.draft_length)  # a wrong length is refused before any download
    console = Console(stderr=True, quiet=quiet)
    steps = Steps(console)
    folder = target_folder(options.target, steps)
    learning_folder(options.learn)
    command = options.load(folder, id=uuid4().hex, parallel=1)
    if command.macs.hosts:
        tell: Callable[[str], None] = (lambda line: None) if quiet else show_remarks
        with console.status("Loading the target on several Macs"):
            return ChildSession(command, folder, tell=tell)
    return _load_here(command, folder, steps, roomy=bool(options.attach))


def _load_here(command: Load, folder: ModelFolder, steps: Steps, *, roomy: bool) -> LocalSession:
    """Load the pair in this process. `roomy`: make the context as long as memory allows, unless
    the user chose its length."""
    drafters = resolve_drafters(command.drafter, folder, bits=command.memory.drafter_bits)
    caches, memory = quantized_caches(folder, command.memory), command.memory
    fit = require_pair(
        folder,
        drafters,
        context=memory.context or DEFAULT_CONTEXT,
        cache_bits=memory.cache_bits or None,
    )
    steps.begin("loading")
    model = load(folder)
    settle(model, command.exact, quantized=caches, again=command.measure)
    mark_used(folder.path)
    longest = fit.largest_context if roomy and fit is not None else model.context_length
    model = replace(
        model,
        context_length=min(memory.context or longest, model.context_length),
        sampling=command.sampling or model.sampling,
    )
    session = LocalSession(
        model,
        drafter=drafters,
        policy=make_policy(command.draft_length),
        quantized=caches,
        calibrations=CalibrationStore(calibration_folder()),
        earlier=earlier_answers_folder() if command.learn else None,
        kept=kept_blocks(command.keep_bytes),
    )
    session.drafter_bits = memory.drafter_bits
    with steps.console.status("Loading the measured cost of drafting") as status:
        measuring = False

        def show(share: float) -> None:
            nonlocal measuring
            if not measuring:  # it takes a few seconds: a file needs no line about it
                line = "Measuring the cost of drafting on this machine, once"
                steps.begin("measuring", line if steps.console.is_terminal else "")
            measuring = True
            status.update(f"{share:.0%}")

        if command.measure and not memory.drafter_bits:
            try_bits(session, progress=show)
        remarks = session.calibrate(progress=show, again=command.measure)
    steps.end()
    show_remarks(*filter(None, [model.remark]), *(remark.value for remark in remarks))
    return session


def show_remarks(*remarks: str) -> None:
    """Print remarks about an answer or a load to standard error."""
    for remark in remarks:
        Console(stderr=True).print(remark, style="yellow", highlight=False, soft_wrap=True)
