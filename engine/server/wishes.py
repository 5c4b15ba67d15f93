"""Settings that other servers support, dialect by dialect; and paths that do not exist here.

A name that a dialect's body has is supported. Every other name that clients of OpenAI, Anthropic,
Ollama, llama.cpp, vLLM, SGLang, LM Studio and OpenRouter send is in one of two tables. Either it is
refused with a remedy, because the answer would be another one without it; a value that changes
nothing is accepted. Or it is ignored, for the reason in the table. All other names are ignored:
clients add names of their own.
"""

from collections.abc import Mapping, Set
from typing import Any

from engine.server.errors import invalid

NOTHING: tuple[Any, ...] = (None, "", [], {})
"""A missing value, and the values that clients send in its place."""
_FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_ONE = (1,)
_OFF = (False,)
_YES = (True,)
_FORM = ({"type": "text"}, {"format": {"type": "text"}})
_UNTHINKING = (False, "none", {"type": "disabled"}, {"enabled": False})
_FUSE = "Fuse the adapter with the model, and serve that."
_ENDS = "Use stop or max_tokens."
_CHOSEN = "Use temperature, top_p, top_k, min_p or a penalty."
_IN_CHAT = "Put it into the messages of a chat."
_CHAT = "Use /v1/chat/completions."
_PROBABILITIES = "Use logprobs and top_logprobs of /v1/chat/completions."
_THINKING = "Completions have no thinking: use /v1/chat/completions."
_WHOLE = "Send the whole conversation with each request, as messages."
_TEMPLATE = "The model's own template is used: leave it out."
_TOOLS = "Use tools of your own."
_APART = "Reasoning has a field of its own; include_reasoning: false leaves it out."
REFUSED: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("response_format text_format output_format format text", _FORM, ""),
    ("structural_tag grammar_triggers guided_whitespace_pattern", (), ""),
    ("output_config", (), "Send its effort as reasoning_effort, its format as the form."),
    # its length and its end
    ("max_length", (0, -1), "Use max_tokens."),
    ("min_tokens min_new_tokens min_length ignore_eos t_max_predict_ms n_indent", _OFF, _ENDS),
    ("stop_token_ids stop_regex eos_token_id repetition_detection", (), _ENDS),
    ("include_stop_str_in_output no_stop_trim", _OFF, "Add the text in stop to the answer."),
    # how its tokens are chosen
    ("typical_p typical tfs_z tfs length_penalty num_beams guidance_scale", _ONE, _CHOSEN),
    ("mirostat mirostat_mode dry_multiplier xtc_probability dynatemp_range", _OFF, _CHOSEN),
    ("smoothing_factor top_a penalty_alpha epsilon_cutoff eta_cutoff", _OFF, _CHOSEN),
    ("use_beam_search top_n_sigma adaptive_target watermarking", (*_OFF, -1), _CHOSEN),
    ("no_repeat_ngram_size grammar_lazy", _OFF, _CHOSEN),
    ("do_sample", _YES, "Use temperature: 0 for the likeliest tokens."),
    ("samplers sampler_order custom_logit_processor logits_processors vllm_xargs", (), _CHOSEN),
    ("bad_words bad_words_ids allowed_token_ids", (), "Use logit_bias."),
    ("n n_cmpl best_of", _ONE, "Send the request once for each answer."),
    ("lora lora_path lora_request lora_adapter adapter adapters preset", (), _FUSE),
    # the prompt
    ("messages prompt input", (), "Use the endpoint that reads it."),
    ("system instructions documents images input_ids prompt_embeds", (), _IN_CHAT),
    ("safe_prompt", _OFF, _IN_CHAT),
    ("context previous_response_id conversation", (), _WHOLE),
    ("chat_template template prompt_mode", (), _TEMPLATE),
    ("raw suffix", _OFF, "Use /v1/completions."),
    ("echo", _OFF, "Add the prompt to the answer."),
    ("prompt_logprobs", (), "Only answers have logprobs: score prompts with mlx_lm.evaluate."),
    ("truncate truncate_prompt_tokens truncation", (False, "disabled"), "Send a shorter prompt."),
    ("options extra_body", (), "Send its fields at the top level."),
    ("continue_final_message", _OFF, _CHAT),
    ("background", _OFF, "Wait for the answer: nothing is stored."),
    # thinking and tools
    ("enable_thinking think thinking reasoning reasoning_effort", _UNTHINKING, _THINKING),
    ("thinking_budget chat_template_kwargs", (*_UNTHINKING, -1), _THINKING),
    ("include_reasoning separate_reasoning stream_reasoning", _YES, _CHAT),
    ("reasoning_in_content thinking_forced_open", _OFF, _APART),
    ("reasoning_format", ("auto", "deepseek", "parsed"), _APART),
    ("tools tool_choice", ("none", "auto"), _CHAT),
    ("functions function_call", (), "Send them as tools, and tool_choice."),
    ("parallel_tool_calls parse_tool_calls add_generation_prompt", _YES, _CHAT),
    ("plugins search_parameters mcp_servers container integrations", (), _TOOLS),
    ("enable_search", _OFF, _TOOLS),
    ("web_search_options audio", (), _TOOLS),
    ("modalities", (["text"],), "An answer is text."),
    # figures of the answer
    ("logprobs top_logprobs n_probs logprob_token_ids", _OFF, _PROBABILITIES),
    ("return_token_ids return_tokens_as_token_ids return_tokens", _OFF, _PROBABILITIES),
    ("return_hidden_states return_prompt_text return_meta_info", _OFF, _PROBABILITIES),
    ("post_sampling_probs return_logprob", _OFF, _PROBABILITIES),
    ("skip_special_tokens spaces_between_special_tokens", _YES, _PROBABILITIES),
    ("response_fields", (), "Read the fields of the whole answer."),
)
"""Names, the values of each that change nothing, and the remedy."""

HARMLESS: Mapping[str, str] = {
    "It names the user or the request: nothing of that is stored.": """
        user metadata safety_identifier session_id session_params conversation_id request_id rid
        trace client_metadata extra_key custom_labels custom_params title""",
    "Nothing is stored in any case.": "store",
    "It says where and when to compute.": """
        service_tier priority provider route models inference_geo speed keep_alive ttl id_slot
        num_gpu main_gpu num_batch num_thread numa low_vram use_mmap use_mlock f16_kv vocab_only
        guided_decoding_backend backend_sampling sse_ping_interval kv_transfer_params
        ec_transfer_params routed_dp_rank data_parallel_rank bootstrap_host bootstrap_port
        bootstrap_room""",
    "Prompts are cached in any case.": """
        prompt_cache_key prompt_cache_retention cache_prompt cache_salt cache_control n_cache_reuse
        ngram_corpus_id""",
    "A draft never changes an answer.": """
        prediction draft_model num_draft_tokens speculative.n_max speculative.n_min
        speculative.p_min speculative.type""",
    "A conversation that does not fit is refused, not cut.": """
        num_ctx context_length num_keep n_keep n_discard shift transforms context_management
        truncation_side""",
    "Usage is sent in any case; figures in between change nothing.": """
        usage stream_options timings_per_token return_progress return_cached_tokens_details verbose
        stream_interval include""",
    "It tunes a filter that is refused by its own name where it is on.": """
        mirostat_tau mirostat_eta dry_base dry_allowed_length dry_penalty_last_n xtc_threshold
        dry_sequence_breakers preserved_tokens dynatemp_exponent smoothing_curve min_keep
        penalize_nl adaptive_decay""",
    "A hint to models that were trained on it.": "verbosity max_tool_calls prompt_cache_options",
    "The model's tokenizer and template decide how a prompt begins.": "add_special_tokens",
    "It is about pictures and sounds, which are scaled to what the model sees.": """
        mm_processor_kwargs media_io_kwargs images_config use_audio_in_video""",
}
"""Names that are ignored, by the reason."""

_ASKED_FOR = {"web_search_options", "audio"}  # by {}, too
_CONTENTS = {"messages", "prompt", "input"}  # an endpoint needs only its own
_KNOWN = {name: (nothing, remedy) for names, nothing, remedy in REFUSED for name in names.split()}

_EMBEDDINGS = "Embeddings are not supported."
_IMAGES = "Generating images, speech and transcripts is not supported."
_STORE = "Nothing is stored between requests. Send the whole conversation each time."
_MODELS = "Models cannot be {} here. Use `slipstream models`, or the Library of the window."
MISSING = {
    **dict.fromkeys(("/embeddings", "/api/embed", "/api/embeddings", "/rerank"), _EMBEDDINGS),
    **dict.fromkeys(("/images/*", "/audio/*"), _IMAGES),
    **dict.fromkeys(("/files", "/batches", "/threads", "/conversations", "/responses/*"), _STORE),
    "/moderations": "Moderation is not supported.",
    "/api/pull": _MODELS.format("downloaded"),
    "/api/push": _MODELS.format("uploaded"),
    "/api/create": _MODELS.format("made"),
    "/api/copy": _MODELS.format("copied"),
    "/api/delete": _MODELS.format("deleted"),
}
"""Why paths of these APIs do not exist; "/images/*" means all paths below /images."""


def flag_in(value: Any) -> bool | None:
    """Read a boolean, which may be a word or a number; None if the value is another."""
    return _FLAGS.get(str(value).strip().lower())


def check_wishes(body: Mapping[str, Any], own: Set[str], form: str) -> None:
    """Raise Refusal if a body has such a setting under a name that is not among its `own`.

    `form`: the field in which the dialect takes the form of an answer.
    """
    given = {name for name, value in body.items() if value not in NOTHING}
    given |= {name for name in _ASKED_FOR & body.keys() if body[name] == {}}
    read = _CONTENTS if given & own & _CONTENTS else set()
    for name in given & _KNOWN.keys() - own - read:
        nothing, remedy = _KNOWN[name]
        value = flag_in(body[name])
        if (body[name] if value is None else value) not in nothing:
            hint = remedy or f"Send the form of the answer as {form}."
            raise invalid(f"{name} is not supported here. {hint}", name, "unsupported_parameter")
