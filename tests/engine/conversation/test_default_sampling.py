"""What holds where nothing was chosen: the folder's word, else a balanced sampling."""

import json
from dataclasses import replace

from engine.conversation.default_sampling import BALANCED_SMALL, default_sampling
from engine.request import BALANCED, Sampling
from models.model_folder import ModelFolder
from tests.support.models.model_folders import CONFIGS

LARGE = CONFIGS["llama"]


def folder(path, stated, config=LARGE):
    (path / "config.json").write_text(json.dumps(config))
    text = stated if isinstance(stated, str) else json.dumps(stated)
    (path / "generation_config.json").write_text(text)
    return ModelFolder(path)


TEMPERED = Sampling(temperature=0.7)
PENALIZED = replace(BALANCED, repetition_penalty=1.1)
STATED = (  # what is stated, the sampling, and what of it cannot be used
    (
        {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20},
        Sampling(temperature=0.6, top_p=0.95, top_k=20),
        "",
    ),
    (
        {"temperature": 0.7, "repetition_penalty": 1.1, "min_p": 0.05},
        replace(TEMPERED, repetition_penalty=1.1, min_p=0.05),
        "",
    ),
    # transformers reads a temperature that is missing as 1
    ({"do_sample": True, "top_k": 64}, Sampling(top_k=64, temperature=1.0), ""),
    # what is said of one who decodes greedily
    (
        {"temperature": 1e-06, "top_k": 1, "top_p": 0.001, "repetition_penalty": 1.05},
        Sampling(top_k=1, top_p=0.001, repetition_penalty=1.05),
        "",
    ),
    ({"temperature": 0, "repetition_penalty": 1.05}, Sampling(repetition_penalty=1.05), ""),
    ({"do_sample": False, "temperature": 0.6}, BALANCED, ""),
    ({"do_sample": False, "repetition_penalty": 1.1}, PENALIZED, ""),
    ({"do_sample": True}, BALANCED, ""),
    ({"do_sample": True, "repetition_penalty": 1.1}, PENALIZED, ""),
    ({"top_p": 0.9}, BALANCED, ""),
    ({"temperature": None, "top_k": -1}, BALANCED, ""),
    ({"temperature": 0.7, "top_k": 20.0}, replace(TEMPERED, top_k=20), ""),
    ("[1, 2]", BALANCED, ""),
    ("{", BALANCED, ""),
    ({"eos_token_id": 2}, BALANCED, ""),
    ({"temperature": 0.7, "top_p": 7}, TEMPERED, "top_p 7"),
    ({"temperature": 0.7, "top_k": 2.5}, TEMPERED, "top_k 2.5"),
    ({"temperature": True}, BALANCED, "temperature True"),
    ({"temperature": "hot", "top_p": 0.8}, replace(BALANCED, top_p=0.8), "temperature 'hot'"),
    (
        {"do_sample": True, "temperature": -1.0, "top_k": 64},
        Sampling(temperature=1.0, top_k=64),
        "temperature -1.0",
    ),
)


def test_the_folder_says_how_it_is_sampled_and_only_what_cannot_be_used_is_left_out(tmp_path):
    for stated, sampling, unused in STATED:
        found, remark = default_sampling(folder(tmp_path, stated))
        assert (stated, found, bool(remark)) == (stated, sampling, bool(unused))
        assert unused in remark
    assert default_sampling(ModelFolder(tmp_path / "empty")) == (BALANCED, "")


def test_small_models_are_penalized_for_repeating_themselves(tmp_path):
    small = CONFIGS["smollm2-135m"]
    assert default_sampling(folder(tmp_path, {}, small))[0] == BALANCED_SMALL
    stated = Sampling(temperature=0.5)
    assert default_sampling(folder(tmp_path, {"temperature": 0.5}, small))[0] == stated
