"""Ollama's own GGUF files, which its converter wrote, in the names and numbers of llama.cpp.

Knows gemma3 with a tower of pictures in the same file, and gptoss. Of a tower nothing is read.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.gguf.file import GgufFile

_TOWER, _EMBEDDING = ("v.", "mm."), "token_embd.weight"
_SINKS, _NORM, _GATE = ".attn_sinks", ".ffn_norm.weight", "blk.0.ffn_gate_exps.weight"
_GEMMA = {  # an older name, and the default
    "rope.freq_base": ("rope.global.freq_base", 1_000_000.0),
    "rope.freq_base_swa": ("rope.local.freq_base", 10_000.0),
    "attention.layer_norm_rms_epsilon": ("", 1e-6),
}
_LONG_CONTEXT = 131_072  # of Gemma 3 from 4B on, which stretch positions for it


def as_llama_cpp_writes(file: "GgufFile") -> "GgufFile":
    """Return the file with llama.cpp's names; others' files as they are."""
    match file.metadata.get("general.architecture"):
        case "gptoss":
            return _gpt_oss(file)
        case "gemma3":
            return _gemma3(file)
    return file


def _gpt_oss(file: "GgufFile") -> "GgufFile":
    def renamed(name: str) -> str:
        name = name.replace(_NORM, ".post_attention_norm.weight")
        return f"{name}.weight" if name.endswith(_SINKS) else name

    ours = {name.replace("gptoss.", "gpt-oss.", 1): v for name, v in file.metadata.items()}
    tensors = {renamed(name): replace(t, name=renamed(name)) for name, t in file.tensors.items()}
    given: dict[str, Any] = {"gpt-oss.rope.scaling.type": "yarn"}
    if _GATE in tensors:
        given["gpt-oss.expert_feed_forward_length"] = tensors[_GATE].shape[-2]
    metadata = given | ours | {"general.architecture": "gpt-oss"}
    return replace(file, metadata=metadata, tensors=tensors)


def _gemma3(file: "GgufFile") -> "GgufFile":
    given: dict[str, Any] = {
        f"gemma3.{name}": file.metadata.get(f"gemma3.{older}", default)
        for name, (older, default) in _GEMMA.items()
    }
    tensors = {name: t for name, t in file.tensors.items() if not name.startswith(_TOWER)}
    if file.metadata.get("gemma3.context_length") == _LONG_CONTEXT and tensors != file.tensors:
        given |= {"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0}
    metadata = given | file.metadata
    pattern = metadata.get("gemma3.attention.sliding_window_pattern")
    if isinstance(pattern, list) and False in pattern:
        metadata["gemma3.attention.sliding_window_pattern"] = pattern.index(False) + 1
    rows = tensors[_EMBEDDING].shape[0] if _EMBEDDING in tensors else None
    for name in ("tokens", "scores", "token_type"):  # it has tokens of pictures, without rows
        if isinstance(listed := metadata.get(f"tokenizer.ggml.{name}"), list):
            metadata[f"tokenizer.ggml.{name}"] = listed[:rows]
    return replace(file, metadata=metadata, tensors=tensors)
