"""The Hugging Face hub: questions, downloads, and the cache that other programs share."""

from models.network import naming_variables

with naming_variables():  # which its client reads as it is imported
    from huggingface_hub import get_token  # noqa: F401
