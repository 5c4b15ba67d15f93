"""`python -m tests.lab.parity`: compare our networks with others, or keep what those give."""

from importlib import import_module
from typing import Annotated

import typer
from rich.console import Console

from tests.lab.parity.subjects import KEPT, TOLERANCE, Unavailable, difference, keep, kept

DRAFTERS = ("eagle3", "eagle_options", "mtp", "gemma_assistant", "dflash", "dspark")
TOWERS = ("sighted", "towers", "gemma3", "gemma4", "lfm2_vl", "qwen3_vl")


def main(
    kinds: Annotated[list[str] | None, typer.Argument(help="eagle3, ...; else all.")] = None,
    *,
    write: Annotated[bool, typer.Option("--write", help="Keep what the others give.")] = False,
) -> None:
    """The largest difference of every subject; exit code 1 where it is more than 1e-5."""
    console, far = Console(), False
    for kind in kinds or DRAFTERS + TOWERS:
        module = import_module(f"tests.lab.parity.{kind}")
        for subject in module.SUBJECTS:
            try:
                theirs = module.theirs(subject)
            except Unavailable as reason:
                console.print(f"{subject.name:40} not compared: {reason}", soft_wrap=True)
                continue
            if write:
                keep(subject, theirs)
            from_us = difference(module.ours(subject), theirs)
            from_kept = difference(kept(subject), theirs)
            passed = max(from_us, from_kept) <= TOLERANCE
            far |= not passed
            size = (KEPT / f"{subject.name}.npz").stat().st_size
            console.print(
                f"{subject.name:40} ours {from_us:.1e}, kept {from_kept:.1e} ({size:,} bytes)"
                f"{'' if passed else '  DIFFERENT'}",
                style=None if passed else "red",
                highlight=False,
                soft_wrap=True,
            )
    raise typer.Exit(int(far))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
