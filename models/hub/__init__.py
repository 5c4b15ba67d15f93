"""The Hugging Face hub: questions, downloads, and the cache that other programs share."""

from models.download import set_variables
from models.errors import Problem

_SETTINGS = ("HF_ENDPOINT", "HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT")

try:  # its client reads them as it is imported
    from huggingface_hub import constants, get_token  # noqa: F401  # which reads the rest

    if constants.HF_HUB_DOWNLOAD_TIMEOUT < 0:
        raise ValueError("a time before now")
except ValueError as error:
    raise Problem(
        "A setting of the hub is not one that its client can read.",
        f"Correct {set_variables(*_SETTINGS)}.",
    ) from error
