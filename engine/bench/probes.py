"""What a benchmark measures apart from the answers: memory, acceptance, passes by rows."""

import resource
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx

from engine.bench.accepting import accept_cost
from engine.bench.curve import measure_curve
from engine.bench.options import RULES, BenchOptions
from engine.bench.report import Report
from engine.bench.roofline import measure_roofline, reads_all_weights
from engine.decoder import Decoder
from engine.loading import LoadedModel

_DEEPEST = 1024  # tokens: to read more takes long on a slow machine


def probed(
    report: Report, options: BenchOptions, target: LoadedModel, prompts: Sequence[tuple[int, ...]]
) -> Report:
    """The report with these figures, at about the depth of the answers' middle."""
    decoder = Decoder(target.model)
    depth = int(statistics.median(map(len, prompts))) + options.max_tokens // 2
    depth = min(depth, _DEEPEST, max(1, target.context_length - 2))
    logits = target.model(mx.zeros((1, 1), dtype=mx.int32))  # for its kind; never computed
    rule = RULES[options.rules[0]]
    probed = replace(
        report,
        accepting=tuple(
            accept_cost(vocabulary=decoder.vocabulary, temperature=t, rule=rule, dtype=logits.dtype)
            for t in options.temperatures
        ),
        curve=measure_curve(decoder, depth=depth),
        roofline=measure_roofline(decoder, depth) if reads_all_weights(target.model) else None,
    )
    mx.clear_cache()
    return probed


def peak_rss_bytes() -> int:
    """The most memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
