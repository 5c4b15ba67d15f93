"""The errors of the hub's client, each explained as a Problem.

Knows the errors; sends no requests. Addresses are left out of messages: they may hold secrets.
"""

import time
from contextlib import suppress
from email.utils import parsedate_to_datetime

import httpx2
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from models.errors import Problem
from models.network import OtherAnswer, connection_trouble, network_variables

ATTEMPTS = 6  # in a row without a new byte
LONGEST_WAIT_SECONDS = 30.0
LONGEST_ASKED_SECONDS = 300.0  # the longest wait that is accepted without a Problem
_RETRIED_STATUSES = (408, 416, 429, 500, 502, 503, 504)
_TRY_LATER = "Try again later: downloads resume where they stopped."


def offline_problem() -> Problem:
    """The Problem of every request in offline mode."""
    return Problem(
        "The hub is not asked: offline mode is on.",
        "Unset HF_HUB_OFFLINE, or use a model that is on this machine.",
    )


def status_of(error: Exception) -> int | None:
    """The HTTP status of the hub's answer, if there was one."""
    if isinstance(error, HfHubHTTPError | httpx2.HTTPStatusError):
        return error.response.status_code
    return None


def is_passing(error: Exception) -> bool:
    """Whether the same request is likely to succeed later."""
    if (status := status_of(error)) is not None:
        return status in _RETRIED_STATUSES
    no_address = isinstance(error, httpx2.UnsupportedProtocol)
    return isinstance(error, httpx2.TransportError) and not no_address


def retry_after_seconds(error: Exception) -> float | None:
    """Return the seconds for which the hub asks clients to wait, if it does."""
    if not isinstance(error, HfHubHTTPError | httpx2.HTTPStatusError):
        return None
    said = error.response.headers.get("Retry-After", "").strip()
    if said.isdecimal():
        return float(said)
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    return None


def pause_seconds(error: Exception, failures: int, first_seconds: float) -> float | None:
    """Return the seconds until the next attempt after this number of failures in a row: as the hub
    says, or twice as many each time. None where that is in vain."""
    asked = retry_after_seconds(error)
    too_long = asked is not None and asked > LONGEST_ASKED_SECONDS
    if failures >= ATTEMPTS or too_long or not is_passing(error):
        return None
    grown = first_seconds * 2.0 ** max(0, failures - 1)
    return min(grown, LONGEST_WAIT_SECONDS) if asked is None else asked


def explain(error: Exception, *, name: str, page: str) -> Problem:
    """Return the Problem for an error of the hub's client, about the repository `name`.

    `page` is its address for people.
    """
    match error:
        case Problem():
            return error
        case OfflineModeIsEnabled():
            return offline_problem()
        case GatedRepoError():
            return Problem(
                f"{name} is gated: its owners grant access on request.",
                f"Request access on {page}, then sign in: hf auth login",
            )
        case RepositoryNotFoundError():
            return Problem(
                f"{name} was not found on the hub, or is private.",
                "Check the name; if it is private, sign in first: hf auth login",
            )
        case RevisionNotFoundError():
            return Problem(f"{name} has no such revision.", f"See its history on {page}.")
        case RemoteEntryNotFoundError():
            return Problem(
                f"{name} has changed on the hub: a file is gone.", "Start the download again."
            )
        case OtherAnswer():
            return Problem(
                "The answer did not come from a Hugging Face hub.",
                "Check the network connection: it may want you to sign in; or check HF_ENDPOINT.",
            )
        case DisabledRepoError():
            return Problem(f"The hub has closed {name}.", "Choose another model.")
    return _explain_status(status_of(error), error, name=name)


def _explain_status(status: int | None, error: Exception, *, name: str) -> Problem:
    if status == 401 and "Authorization" not in error.response.request.headers:  # type: ignore[attr-defined]
        return Problem(f"The hub asks who wants {name}.", "Sign in first: hf auth login")
    if status == 401:
        return Problem(
            f"The hub rejected the token that was sent for {name}.",
            "Sign in again: hf auth login (or correct HF_TOKEN).",
        )
    if status == 403:
        return Problem(
            f"This account has no access to {name}.",
            "Check what the token may read, or sign in with another: hf auth login",
        )
    if status == 429:
        seconds = retry_after_seconds(error)
        wait = "later" if seconds is None else f"in {seconds:.0f} seconds"
        return Problem(
            "The hub limits the number of requests, and refused this one.",
            f"Try again {wait}; signing in raises the limit: hf auth login",
        )
    if status == 404:
        missing = f"The hub does not have {name}, or not all of it: it answered 404."
        return Problem(missing, "Check the name, and the address of the hub (HF_ENDPOINT).")
    if status is not None and status >= 500:
        return Problem(f"The hub has a failure: it answered {status}.", _TRY_LATER)
    if status is not None:
        return Problem(f"The hub refused the request: it answered {status}.", _TRY_LATER)
    trouble = connection_trouble(error, "the hub")
    named = network_variables(" and")
    check = f"Check the network connection{named}, then try again."
    return Problem(f"{trouble[0].upper()}{trouble[1:]}.", check)
