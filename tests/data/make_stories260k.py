"""Turn llama2.c's stories260K into an ordinary model folder, stories260K/ beside this file.

    python tests/data/make_stories260k.py stories260K.bin tok512.bin

Both files are published under the MIT licence in karpathy/tinyllamas, folder stories260K. The
formats are llama2.c's: `legacy_export` in its export.py for the weights, `export` in its
tokenizer.py for the vocabulary.
"""

import argparse
import json
import struct
from pathlib import Path

import mlx.core as mx
import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, processors
from tokenizers.models import BPE

FOLDER = Path(__file__).parent / "stories260K"
UNKNOWN, BEGIN, END = "<unk>", "<s>", "</s>"  # tokens 0, 1, 2; then the 256 bytes; then the pieces
# The stories stood in one stream, each after a <s>: the model ends a story by beginning the next.
CHAT_TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}"


def read_weights(file: Path) -> tuple[dict[str, int], dict[str, mx.array]]:
    """The header by llama2.c's names, and float32 weights by Hugging Face's names."""
    data = file.read_bytes()
    names = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "max_seq_len")
    shape = dict(zip(names, struct.unpack_from("<7i", data), strict=True))
    if shape["vocab_size"] < 0:
        raise ValueError(f"{file} has an output layer of its own, which this script does not read")
    dim, hidden, layers = shape["dim"], shape["hidden_dim"], shape["n_layers"]
    head_size = dim // shape["n_heads"]
    keys = shape["n_kv_heads"] * head_size
    floats = np.frombuffer(data, dtype="<f4", offset=28)
    position = 0

    def take(*sizes: int) -> np.ndarray:
        nonlocal position
        start, position = position, position + int(np.prod(sizes))
        return floats[start:position].reshape(sizes)

    weights = {"model.embed_tokens.weight": take(shape["vocab_size"], dim)}
    for name, sizes in (  # tensor by tensor, each for all layers
        ("input_layernorm", (dim,)),
        ("self_attn.q_proj", (dim, dim)),
        ("self_attn.k_proj", (keys, dim)),
        ("self_attn.v_proj", (keys, dim)),
        ("self_attn.o_proj", (dim, dim)),
        ("post_attention_layernorm", (dim,)),
        ("mlp.gate_proj", (hidden, dim)),
        ("mlp.down_proj", (dim, hidden)),
        ("mlp.up_proj", (hidden, dim)),
    ):
        for layer, tensor in enumerate(take(layers, *sizes)):
            if name in ("self_attn.q_proj", "self_attn.k_proj"):
                tensor = _halves(tensor, head_size)
            weights[f"model.layers.{layer}.{name}.weight"] = tensor
    weights["model.norm.weight"] = take(dim)
    take(2, shape["max_seq_len"], head_size // 2)  # the tables of rotary embedding, not needed
    if position != floats.size:
        raise ValueError(f"{file} holds {floats.size} floats where its header asks for {position}")
    return shape, {name: mx.array(tensor) for name, tensor in weights.items()}


def _halves(rows: np.ndarray, head_size: int) -> np.ndarray:
    """Rows of q or k, per head from pairs (0 1)(2 3).. rotated together to (0 n/2)(1 n/2+1).."""
    paired = rows.reshape(-1, head_size // 2, 2, rows.shape[1])
    return paired.swapaxes(1, 2).reshape(rows.shape)


def read_vocabulary(file: Path) -> list[str]:
    """The pieces by id: three special ones, the bytes, then what was merged, in that order."""
    data = file.read_bytes()
    pieces, offset = [], 4  # after the longest piece's length
    while offset < len(data):
        _score, size = struct.unpack_from("<fi", data, offset)
        piece = data[offset + 8 : offset + 8 + size].decode()
        pieces.append(piece.replace(" ", "▁"))
        offset += 8 + size
    return [UNKNOWN, BEGIN, END, *pieces[3:]]


def make_tokenizer(pieces: list[str]) -> Tokenizer:
    """Byte-pair encoding as SentencePiece does it, characters outside the vocabulary as bytes."""
    ids = {piece: index for index, piece in enumerate(pieces)}
    merges = [
        (piece[:cut], piece[cut:])
        for piece in pieces[3 + 256 :]
        for cut in range(1, len(piece))
        if piece[:cut] in ids and piece[cut:] in ids
    ]
    tokenizer = Tokenizer(
        BPE(vocab=ids, merges=merges, unk_token=UNKNOWN, fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[BEGIN, "$A"], pair=[BEGIN, "$A", BEGIN, "$B"], special_tokens=[(BEGIN, ids[BEGIN])]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(
        [AddedToken(piece, special=True, normalized=False) for piece in (UNKNOWN, BEGIN, END)]
    )
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path, help="stories260K.bin")
    parser.add_argument("vocabulary", type=Path, help="tok512.bin")
    arguments = parser.parse_args()

    shape, weights = read_weights(arguments.weights)
    pieces = read_vocabulary(arguments.vocabulary)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape["dim"],
        "intermediate_size": shape["hidden_dim"],
        "num_hidden_layers": shape["n_layers"],
        "num_attention_heads": shape["n_heads"],
        "num_key_value_heads": shape["n_kv_heads"],
        "vocab_size": shape["vocab_size"],
        "max_position_embeddings": shape["max_seq_len"],
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "bos_token_id": pieces.index(BEGIN),
        "eos_token_id": pieces.index(BEGIN),
        "torch_dtype": "float32",
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": UNKNOWN,
        "bos_token": BEGIN,
        "eos_token": BEGIN,
        "model_max_length": shape["max_seq_len"],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    FOLDER.mkdir(exist_ok=True)
    for name, content in (("config.json", config), ("tokenizer_config.json", tokenizer_config)):
        (FOLDER / name).write_text(json.dumps(content, indent=2) + "\n")
    make_tokenizer(pieces).save(str(FOLDER / "tokenizer.json"))
    mx.save_safetensors(str(FOLDER / "model.safetensors"), weights, metadata={"format": "mlx"})


if __name__ == "__main__":
    main()
