"""`python -m tests.lab.distil`: as `slipstream distil`, with the kinds that it does not learn.

Every failure that a person can act on ends here, as one line, with exit code 2.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from engine.cli.folders import target_folder
from engine.cli.options import TARGET, described
from engine.cpu.blas import restart_with_any_kernels
from engine.distil.head_learner import HeadLearner
from engine.distil.learner import Learner
from engine.distil.run import DistilOptions, distil
from models.errors import Problem
from tests.lab.distil.block_learner import BlockLearner
from tests.lab.distil.medusa_learner import MedusaLearner

LEARNERS: Mapping[str, type[Learner]] = {
    "head": HeadLearner,
    "medusa": MedusaLearner,
    "block": BlockLearner,
}
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def learn(
    *,
    kind: Annotated[
        Literal["head", "medusa", "block"],
        typer.Option(
            help="head drafts tokens one by one; block a few in one pass; medusa predicts each "
            "from the target's last state alone."
        ),
    ],
    prompts: Annotated[list[Path], typer.Option(help="As of slipstream distil; repeatable.")],
    out: Annotated[Path, typer.Option(help="The drafter's folder, to be made.")],
    target: Annotated[str | None, described(*TARGET)] = None,
    answers: Annotated[
        Path | None, typer.Option(help="A folder that keeps the answers, for the next kind.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.1, help="How long to work.")] = None,
    tokens: Annotated[
        int | None, typer.Option(min=100, help="Answer tokens to learn from, instead.")
    ] = None,
    vocabulary: Annotated[int, typer.Option(min=16, help="Tokens it can propose.")] = 8192,
    longest_answer: Annotated[int, typer.Option(min=8, help="Tokens of an answer.")] = 160,
    resume: Annotated[bool, typer.Option("--resume", help="Continue where it stopped.")] = False,
) -> None:
    """Make a drafter of a chosen kind for a target."""
    options = DistilOptions(
        target=target_folder(target),
        prompts=tuple(prompts),
        out=out,
        learner=LEARNERS[kind],
        answers=answers,
        minutes=minutes,
        tokens=tokens,
        vocabulary=vocabulary,
        longest_answer=longest_answer,
        resume=resume,
    )
    print(distil(options, lambda line: print(line, file=sys.stderr)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; after a `Problem` it exits with 2, and one line that names it."""
    if arguments is None:
        restart_with_any_kernels()
    try:
        app(arguments)
    except Problem as problem:
        print(f"distil: {' '.join(str(problem).split())}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
