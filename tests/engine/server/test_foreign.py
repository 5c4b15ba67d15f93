"""Settings of neighbours that are not here: refused by name, unless they ask for nothing."""

from typing import Any

import pytest

from engine.server.errors import Refusal
from engine.server.foreign import check_foreign

BINDING: dict[str, Any] = {
    "typical_p": 0.7,
    "min_tokens": 4,
    "ignore_eos": True,
    "stop_token_ids": [5],
    "mirostat": 2,
    "dry_multiplier": 0.8,
    "xtc_probability": 0.5,
    "n_predict": 5,
    "response_format": {"type": "json_object"},
    "guided_choice": ["a"],
    "use_beam_search": True,
    "bad_words": ["x"],
    "chat_template": "{{ x }}",
}
EMPTY: dict[str, Any] = {
    "typical_p": 1.0,
    "min_tokens": 0,
    "ignore_eos": False,
    "stop_token_ids": [],
    "mirostat": 0,
    "dry_multiplier": 0.0,
    "xtc_probability": 0,
    "n_predict": -1,
    "response_format": {"type": "text"},
    "guided_choice": [],
    "use_beam_search": False,
    "bad_words": [],
    "chat_template": None,
    "cache_prompt": True,
    "user": "u",
}


def test_what_binds_an_answer_is_refused_by_name() -> None:
    for name, value in BINDING.items():
        with pytest.raises(Refusal) as caught:
            check_foreign({"model": "x", name: value}, {"model"}, "format")
        assert (caught.value.status, caught.value.param) == (400, name)
        check_foreign({name: value}, {name}, "format")


def test_what_asks_for_nothing_is_no_matter() -> None:
    check_foreign(EMPTY, (), "format")
