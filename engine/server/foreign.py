"""Names of settings that other servers and dialects have, and this one has not; and paths.

A setting that binds an answer is done or refused, and never dropped: an answer without it would not
be the one that was asked for. Names that only say how to compute an answer are not here; like all
others that nobody knows, they are ignored.
"""

from collections.abc import Collection, Mapping
from typing import Any

from engine.server.errors import invalid

_NONE: tuple[Any, ...] = ([], {}, "")
_ONE = (1,)
_OFF = (0, False)
_NO_LIMIT = (0, -1, -2)
_FORM = (*_NONE, {"type": "text"}, {"format": {"type": "text"}})
_FOREIGN: Mapping[str, tuple[Any, ...]] = {
    # the form of an answer
    **dict.fromkeys(("response_format", "text_format", "output_format", "format", "text"), _FORM),
    **dict.fromkeys(("structured_outputs", "structural_tag", "output_config"), _NONE),
    **dict.fromkeys(("guided_json", "guided_regex", "guided_choice", "guided_grammar"), _NONE),
    **dict.fromkeys(("json_schema", "regex", "grammar", "ebnf"), _NONE),
    # its length and its end
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), _NO_LIMIT),
    **dict.fromkeys(("max_new_tokens", "n_predict", "num_predict", "max_length"), _NO_LIMIT),
    **dict.fromkeys(("min_tokens", "min_new_tokens", "min_length", "ignore_eos"), _OFF),
    **dict.fromkeys(("stop", "stop_sequences", "stop_token_ids", "stop_regex"), _NONE),
    "include_stop_str_in_output": _OFF,
    # how its tokens are chosen
    **dict.fromkeys(("typical_p", "typical", "tfs_z", "tfs", "length_penalty"), _ONE),
    **dict.fromkeys(("num_beams", "guidance_scale", "best_of", "n"), _ONE),
    **dict.fromkeys(("mirostat", "mirostat_mode", "dry_multiplier", "xtc_probability"), _OFF),
    **dict.fromkeys(("dynatemp_range", "smoothing_factor", "top_a", "penalty_alpha"), _OFF),
    **dict.fromkeys(("epsilon_cutoff", "eta_cutoff", "no_repeat_ngram_size"), _OFF),
    **dict.fromkeys(("use_beam_search", "top_n_sigma"), (*_OFF, -1)),
    **dict.fromkeys(("bad_words", "bad_words_ids", "allowed_token_ids"), _NONE),
    # what is answered
    **dict.fromkeys(("chat_template", "documents", "images", "suffix", "template"), _NONE),
}
"""The values of each name that ask for nothing."""

_EMBEDDINGS = "There are no embeddings: this server's models write text."
_IMAGES = "There are no images and no sounds: this server's models read and write text."
_STORE = "Nothing is stored here between requests. Send the whole conversation with each."
_MODELS = "Models are not {} here. Use `slipstream models`, or the Library of the window."
MISSING = {
    **dict.fromkeys(("/embeddings", "/api/embed", "/api/embeddings", "/rerank"), _EMBEDDINGS),
    **dict.fromkeys(("/images/*", "/audio/*"), _IMAGES),
    **dict.fromkeys(("/files", "/batches", "/threads", "/conversations", "/responses/*"), _STORE),
    "/moderations": "There is no moderation here.",
    "/api/pull": _MODELS.format("downloaded"),
    "/api/push": _MODELS.format("uploaded"),
    "/api/create": _MODELS.format("made"),
    "/api/copy": _MODELS.format("copied"),
    "/api/delete": _MODELS.format("deleted"),
}
"""The reasons why paths of these APIs have no counterpart; "/images/*" is for all below."""


def check_foreign(body: Mapping[str, Any], own: Collection[str], form: str) -> None:
    """Raise Refusal if a body has such a setting under a name that is not among its `own`.

    `form`: the field in which the dialect takes the form of an answer.
    """
    for name in body.keys() & _FOREIGN.keys() - own:
        value = body[name]
        if value is not None and value not in _FOREIGN[name]:
            hint = f" The form of an answer goes into {form}." if _FOREIGN[name] is _FORM else ""
            raise invalid(f"{name} is not supported here.{hint}", name, "unsupported_parameter")
