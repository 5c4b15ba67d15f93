"""What transformers' towers give, in PyTorch. Knows nothing of Slipstream.

python towers_torch.py FOLDER INPUTS OUTPUT: a whole model's folder, as published; its pictures;
where to write.
"""

import json
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForImageTextToText
from transformers.utils import logging

PROCESSORS = {
    "gemma3": "gemma3.image_processing_pil_gemma3.Gemma3ImageProcessorPil",
    "gemma4": "gemma4.image_processing_pil_gemma4.Gemma4ImageProcessorPil",
    "gemma4_unified": (
        "gemma4_unified.image_processing_gemma4_unified.Gemma4UnifiedImageProcessor"
    ),
    "lfm2_vl": "lfm2_vl.image_processing_lfm2_vl.Lfm2VlImageProcessor",
    "qwen3_5": "qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil",
    "qwen3_vl": "qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil",
    "qwen3_vl_moe": "qwen2_vl.image_processing_pil_qwen2_vl.Qwen2VLImageProcessorPil",
}
COUNTS = ("num_crops", "num_soft_tokens_per_image", "image_rows", "image_cols", "image_sizes")
KINDS = ("token_type_ids", "mm_token_type_ids")  # which tokens are pictures' rows


def joined(rows: Any) -> Any:
    """The rows of a picture, which may come in several tensors."""
    whole = torch.cat(list(rows)) if isinstance(rows, list | tuple) else rows
    return whole.reshape(-1, whole.shape[-1]).numpy()


@torch.no_grad()
def main(folder: Path, inputs: Path, output: Path) -> None:
    logging.set_verbosity_error()  # that the text half is missing
    logging.disable_progress_bar()
    kind = json.loads((folder / "config.json").read_text())["model_type"]
    module, _, name = PROCESSORS[kind].rpartition(".")
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    processor = getattr(import_module(f"transformers.models.{module}"), name)(**settings)
    model, report = AutoModelForImageTextToText.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
    )
    given = dict(np.load(inputs))
    tokens, row = given.pop("tokens", None), given.pop("rows", None)
    assert not report["unexpected_keys"], report["unexpected_keys"]
    text = () if tokens is not None else ("model.language_model.", "lm_head.")
    missing = [name for name in report["missing_keys"] if not name.startswith(text)]
    assert set(missing) <= {"lm_head.weight"}, missing

    def prepared(pictures: list[Any]) -> dict[str, Any]:
        tensors = [torch.from_numpy(pixels.transpose(2, 0, 1).copy()) for pixels in pictures]
        made = processor(tensors, return_tensors="pt")
        return {name: each for name, each in made.items() if name not in COUNTS}

    model.eval()
    found: dict[str, Any] = {}
    if tokens is not None:
        ids = torch.from_numpy(tokens)[None]
        kinds = (ids == int(row)).long()
        taken = {*signature(model.forward).parameters, *signature(model.model.forward).parameters}
        options = {name: kinds for name in KINDS if name in taken}
        made = model(input_ids=ids, **options, **prepared(list(given.values())))
        found["logits"] = made.logits[0].numpy()
        given = {}
    for picture, pixels in given.items():
        index = picture.split()[-1]
        seen = model.model.get_image_features(**prepared([pixels]))
        found[f"rows {index}"] = joined(seen.pooler_output)
        for place, deeper in enumerate(getattr(seen, "deepstack_features", None) or ()):
            found[f"deeper {index} {place}"] = joined(deeper)
    np.savez(output, **found)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
