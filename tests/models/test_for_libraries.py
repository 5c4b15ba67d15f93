"""A folder as libraries read it: with a template, with its makers' words, without marks."""

import json
from codecs import BOM_UTF8

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer

from models.for_libraries import TOKENIZER, for_libraries
from models.gguf.tokenizer import SPLIT_BY

TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]


def written(folder, *added, split="llama-bpe", model_type="mistral", **config):
    tokenizer = Tokenizer(models.BPE())
    words = pre_tokenizers.Split(Regex(SPLIT_BY[split]), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
    tokenizer.add_tokens([AddedToken(token, special=True) for token in added])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_bytes(BOM_UTF8 + json.dumps({"model_type": model_type}).encode())
    with for_libraries(folder, model_type) as place:
        assert json.loads((place / "config.json").read_text()) == {"model_type": model_type}
        return AutoTokenizer.from_pretrained(place, **TOKENIZER)


def test_a_chat_without_a_template_has_the_form_that_the_tokens_show(tmp_path):
    read = written(tmp_path, "<|im_start|>", "<|im_end|>", model_type="llama")
    assert read.apply_chat_template(TURNS, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>assistant\n"
    )
    assert written(tmp_path, "<|im_start|>", model_type="llama").chat_template is None
    assert written(tmp_path, "<|im_start|>", "<|im_end|>", chat_template="x").chat_template == "x"


@pytest.mark.parametrize(
    ("model_type", "added", "words"),
    [
        ("mistral", ("[INST]",), ["e", "Bay", "Ġ", "1", "2", "3"]),
        ("mistral", (), ["eBay", "Ġ", "123"]),  # another's tokens
        ("llama", ("[INST]",), ["eBay", "Ġ", "123"]),
    ],
)
def test_words_of_mistrals_tokenizers_are_its_makers(model_type, added, words, tmp_path, capfd):
    read = written(tmp_path, *added, model_type=model_type)
    pieces = read.backend_tokenizer.pre_tokenizer.pre_tokenize_str("eBay 123")
    assert [piece for piece, _ in pieces] == words
    assert "regex" not in capfd.readouterr().err
