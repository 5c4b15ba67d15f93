"""Tiny drafters and towers whose weights are drawn from a seed, and what others computed with them.

`tests/data/parity/subjects.jsonl` has them: names, config.json, shapes of the tensors as they are
published. NumPy's `RandomState` draws the weights, whose numbers never change from version to
version. Beside it stands what other people's programs gave, in float32. EAGLE-3, MTP of Qwen3.5,
Gemma's assistants, DFlash and most towers: mlx-vlm 0.7.10. DFlash with windows: dflash-mlx 0.1.8.
DSpark: mlx-dspark 0.20.3. EAGLE-3's options, gated Markov heads, DFlash with shared windows:
speculators 0.9.0. Other MTP, whole models that see: transformers 5.23.0. EAGLE and DeepSpec: their
authors' code. The programs that asked them are in git's history, as tests/lab/parity.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

KEPT = Path(__file__).parents[3] / "data" / "parity"
TOLERANCE = 1e-5
VOCABULARY = 64
WIDTH = 32  # of the target's states
LAYERS = 8  # of the target
GAIN = 1.5
PROMPT = (3, 1, 41, 59, 26, 5, 35, 8, 9, 7, 50, 2)

TARGET = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}

target_reads_as_mlx_does = patch("engine.cpu.backend.CpuBackend.stand_ins", lambda *_: {})
"""Decorates what reads the target: only the networks after it are compared, not its rounding."""


@dataclass(frozen=True)
class Subject:
    """A drafter as it would be published.

    `shapes` by tensor name; those in `given` are as they are there, the others are drawn, some as
    if they had another name (`drawn_as`). `zero_centred`: one-dimensional norms are stored without
    the 1 that is added to them. `gain`: see `draw`. `target`: the target's config.json.
    """

    name: str
    config: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    given: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    drawn_as: Mapping[str, str] = field(default_factory=dict)
    zero_centred: bool = False
    seed: int = 0
    gain: float = GAIN
    target: Mapping[str, Any] = field(default_factory=lambda: TARGET)

    def weights(self):
        """All tensors, float32 but for those in `given`."""
        drawn = {
            name: draw(
                self.drawn_as.get(name, name),
                shape,
                seed=self.seed,
                zero_centred=self.zero_centred,
                gain=self.gain,
            )
            for name, shape in self.shapes.items()
        }
        return drawn | dict(self.given)

    def write(self, folder):
        """Write it as a repository's folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(dict(self.config), indent=2))
        tensors = {name: mx.array(array) for name, array in self.weights().items()}
        mx.save_safetensors(str(folder / "model.safetensors"), tensors)
        return folder

    def target_model(self):
        """The target, by mlx-lm."""
        return seeded(self.target, seed=self.seed)


def subjects[S: Subject](kind, make=Subject):
    """All of a kind, by name."""
    rows = map(json.loads, (KEPT / "subjects.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["name"]: _subject(row, make) for row in rows if row.pop("kind") == kind}


def _subject[S: Subject](row, make):
    row["shapes"] = {name: tuple(shape) for name, shape in row["shapes"].items()}
    row["given"] = {
        name: np.array(each["values"], each["dtype"]).reshape(each["shape"])
        for name, each in row.get("given", {}).items()
    }
    if "words" in row:
        row["words"] = {int(id): word for id, word in row["words"].items()}
    tuples = {name: _tuples(row[name]) for name in ("pictures", "before", "after") if name in row}
    return make(**row | tuples)


def _tuples(each):
    return tuple(map(_tuples, each)) if isinstance(each, list) else each


def draw(name, shape, *, seed=0, zero_centred=False, gain=GAIN):
    """A tensor that depends on its name and the seed alone: norms are near 1, and matrices enlarge
    what they are multiplied with by `gain`: at 1 drafts stick to one token."""
    state = np.random.RandomState([seed, crc32(name.encode())])
    normal = state.standard_normal(shape)
    if len(shape) == 1:
        unity = 0.0 if zero_centred or name.endswith("bias") else 1.0
        drawn = unity + 0.2 * normal
    elif "embed" in name and "fc" not in name:
        drawn = normal
    else:
        drawn = gain * normal / np.sqrt(shape[-1])
    return drawn.astype(np.float32)


def seeded(config, *, seed=0):
    """A model of mlx-lm's with weights from the seed."""
    model_class, arguments_class = _get_classes(dict(config))
    model = model_class(arguments_class.from_dict(dict(config)))
    shapes = {name: array.shape for name, array in dict(tree_flatten(model.parameters())).items()}
    drawn = {name: mx.array(draw(name, shape, seed=seed)) for name, shape in shapes.items()}
    model.load_weights(list(drawn.items()))
    model.eval()
    return model


def hidden_states(model, tokens):
    """As transformers numbers them: [0] is what the first layer is given, [k] what comes of the
    k-th, (n, width) each; the last one is after the final norm. Of a Llama, layer by layer."""
    inner = model.model
    state = inner.embed_tokens(mx.array([tokens]))
    states = [state]
    for layer in inner.layers:
        state = layer(state, "causal", None)
        states.append(state)
    states.append(inner.norm(state))
    return [each[0] for each in states]


def numbers(array):
    """As NumPy's."""
    return np.array(array.astype(mx.float32) if mx.issubdtype(array.dtype, mx.floating) else array)


def of_tokens(logits, rows):
    """Logits of a drafter's rows, (..., rows), as those of the target's tokens: others are
    impossible. `rows` is None where there are no others."""
    if rows is None:
        return logits
    tokens = mx.broadcast_to(rows.tokens(mx.arange(logits.shape[-1])), logits.shape)
    impossible = mx.full((*logits.shape[:-1], VOCABULARY), -mx.inf)
    return mx.put_along_axis(impossible, tokens, logits, axis=-1)


def difference(one, other):
    """The largest one; infinite where shapes, names or whole numbers differ. Two entries that are
    both minus infinity do not."""
    if one.keys() != other.keys():
        return float("inf")
    largest = 0.0
    for name, a in one.items():
        b = other[name]
        if a.shape != b.shape or np.isnan(a).any() or np.isnan(b).any():
            return float("inf")
        if a.dtype.kind in "iu":
            largest = largest if (a == b).all() else float("inf")
            continue
        same = a == b  # infinite ones, too
        apart = np.abs(np.where(same, 0.0, a) - np.where(same, 0.0, b))
        largest = max(largest, float(apart.max(initial=0.0)))
    return largest


def kept(subject):
    """What the other implementation gave when it was last run."""
    with np.load(KEPT / f"{subject.name}.npz") as file:
        return {name: file[name] for name in file.files}
