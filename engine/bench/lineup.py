"""Who takes part in a benchmark."""

from pathlib import Path

from engine.accept import by_block
from engine.bench.contestants import Contestant, Load, MlxLm, MlxLmSpeculative, Slipstream
from engine.bench.options import RULES, BenchOptions, label, model_folders
from engine.bench.report import MLX_LM, PLAIN
from engine.loading import LoadedModel
from engine.pair import make_policy
from models.model_folder import ModelFolder


def contestants(
    options: BenchOptions, target: LoadedModel, temperature: float, load: Load
) -> list[Contestant]:
    """The two plain ones, ours with each drafter, length and rule, and mlx-lm's with models."""
    rules = options.rules[:1] if temperature == 0.0 else options.rules
    chosen: list[Contestant] = []
    if options.baselines:
        chosen += [
            Slipstream(
                PLAIN,
                target=target,
                drafter="none",
                policy=make_policy("0"),
                rule=by_block,
                load=load,
            ),
            MlxLm(MLX_LM, target=target),
        ]
    for drafter in dict.fromkeys(options.drafters):
        if drafter == "none":
            continue  # that is PLAIN
        folder = Path(drafter).expanduser()
        for length in dict.fromkeys(options.lengths):
            chosen += [
                Slipstream(
                    f"slipstream {label(drafter)} {length}"
                    + (f" {rule}" if len(rules) > 1 else ""),
                    target=target,
                    drafter=drafter,
                    policy=make_policy(length),
                    rule=RULES[rule],
                    load=load,
                )
                for rule in rules
            ]
            if model_folders((drafter,)) == [folder] and length not in ("auto", "0"):
                chosen.append(
                    MlxLmSpeculative(
                        f"mlx-lm {label(drafter)} {length}",
                        target=target,
                        draft_model=load(ModelFolder(folder)).model,
                        length=int(length),
                    )
                )
    return chosen
