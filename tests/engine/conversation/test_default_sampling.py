"""What holds where nothing was chosen: the folder's word, else a balanced sampling."""

import json
from dataclasses import replace

from engine.conversation.default_sampling import BALANCED_SMALL, SMALL, default_sampling
from engine.request import BALANCED, Sampling
from models.model_folder import ModelFolder

LARGE = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def folder(path, stated, config=LARGE):
    (path / "config.json").write_text(json.dumps(config))
    text = stated if isinstance(stated, str) else json.dumps(stated)
    (path / "generation_config.json").write_text(text)
    return ModelFolder(path)


STATED = (
    (
        {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20},
        Sampling(temperature=0.6, top_p=0.95, top_k=20),
    ),
    (
        {"temperature": 0.7, "repetition_penalty": 1.1, "min_p": 0.05},
        Sampling(temperature=0.7, repetition_penalty=1.1, min_p=0.05),
    ),
    # transformers reads a temperature that is missing as 1
    (
        {"do_sample": True, "top_k": 64},
        Sampling(top_k=64, temperature=1.0),
    ),
    # what is said of one who decodes greedily
    (
        {"temperature": 1e-06, "top_k": 1, "top_p": 0.001, "repetition_penalty": 1.05},
        Sampling(top_k=1, top_p=0.001, repetition_penalty=1.05),
    ),
    ({"temperature": 0, "repetition_penalty": 1.05}, Sampling(repetition_penalty=1.05)),
    ({"do_sample": False, "temperature": 0.6}, BALANCED),
    (
        {"do_sample": False, "repetition_penalty": 1.05},
        replace(BALANCED, repetition_penalty=1.05),
    ),
    ({"do_sample": True}, BALANCED),
    ({"do_sample": True, "repetition_penalty": 1.1}, replace(BALANCED, repetition_penalty=1.1)),
    ({"top_p": 0.9}, BALANCED),
    ({"temperature": None, "top_k": -1}, BALANCED),
    ({"temperature": 0.7, "top_k": 20.0}, Sampling(temperature=0.7, top_k=20)),
    ("[1, 2]", BALANCED),
    ("{", BALANCED),
    ({"eos_token_id": 2}, BALANCED),
)


def test_the_folder_says_how_it_is_sampled(tmp_path):
    found = [(stated, *default_sampling(folder(tmp_path, stated))) for stated, _ in STATED]
    assert found == [(*each, "") for each in STATED]
    assert default_sampling(ModelFolder(tmp_path / "empty")) == (BALANCED, "")


def test_a_value_that_cannot_be_used_is_left_out_alone(tmp_path):
    for stated, sampling, name in (
        ({"temperature": 0.7, "top_p": 7}, Sampling(temperature=0.7), "top_p 7"),
        ({"temperature": 0.7, "top_k": 2.5}, Sampling(temperature=0.7), "top_k 2.5"),
        ({"temperature": True}, BALANCED, "temperature True"),
        ({"temperature": "hot", "top_p": 0.8}, replace(BALANCED, top_p=0.8), "temperature 'hot'"),
        (
            {"do_sample": True, "temperature": -1.0, "top_k": 64},
            Sampling(temperature=1.0, top_k=64),
            "temperature -1.0",
        ),
    ):
        found, remark = default_sampling(folder(tmp_path, stated))
        assert (found, name in remark) == (sampling, True), stated


def test_small_models_are_penalized_for_repeating_themselves(tmp_path):
    small = LARGE | {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30}
    assert default_sampling(folder(tmp_path, {}, small))[0] == BALANCED_SMALL
    assert SMALL > 30 * 576 * 1536
    stated = Sampling(temperature=0.5)
    assert default_sampling(folder(tmp_path, {"temperature": 0.5}, small))[0] == stated
