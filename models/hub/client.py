"""Questions to the Hugging Face hub: which models exist, and what a repository holds.

Knows the hub's addresses and answers; writes nothing to disk. The token is the hub client's own
(`hf auth login`, HF_TOKEN): it is sent to the hub only, and never stored here. Nothing about this
machine is sent: no counters, and no list of installed libraries.

`HfApi` is not used (as of huggingface_hub 2.4.0): its `list_models` waits without a limit, sends
the token to any host that a `Link` header names, and stops at the first malformed entry; its
`model_info` reads an answer of any length.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
from huggingface_hub import constants, get_token, hf_hub_url
from huggingface_hub.utils import get_session, hf_raise_for_status

from models.errors import Problem
from models.files import MAXIMUM_CONFIG_BYTES
from models.hub.cache_layout import is_content
from models.hub.problems import explain, offline_problem, pause_seconds
from models.hub.repository import (
    Repository,
    RepositoryFile,
    check_name,
    check_revision,
    licence,
    parse_repository,
    why_not,
)
from models.hub.transfer import ERRORS, Source, range_header
from models.in_words import one_line
from models.network import OtherAnswer, naming_variables, require_file
from models.records import SearchResult

_MAXIMUM_ANSWER_BYTES = 64_000_000
_LARGEST_SEARCH = 100  # what the hub gives on one page
_ASKED_OF_EACH = [
    *("cardData", "config", "downloads", "gated", "lastModified", "likes"),
    *("pipeline_tag", "safetensors", "siblings", "tags"),
]
_BYTES_OF_DTYPE = {
    **dict.fromkeys(("F64", "I64", "U64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"), 1),
}
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LONGEST_WAIT_SECONDS = 30.0
_UNCONNECTED = (httpx2.ConnectError, httpx2.ProxyError, httpx2.TimeoutException)


class Hub:
    """The hub at `endpoint`: HF_ENDPOINT, or the public one, unless given.

    With `offline`, or HF_HUB_OFFLINE set, every request is a Problem. `token` replaces the one of
    `hf auth login`. A request that receives nothing for `timeout_seconds` fails.
    """

    wait_seconds = 0.25  # before a question is asked again; the next time twice that

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        offline: bool = False,
        token: str | None = None,
        timeout_seconds: float = constants.HF_HUB_DOWNLOAD_TIMEOUT,
    ) -> None:
        given = endpoint or os.environ.get("HF_ENDPOINT") or constants.ENDPOINT
        given = given or constants.HUGGINGFACE_CO_URL_HOME  # an empty HF_ENDPOINT names none
        self.endpoint = given.rstrip("/")
        said = os.environ.get("HF_HUB_OFFLINE", "").upper() in constants.ENV_VARS_TRUE_VALUES
        self.offline = offline or said or constants.HF_HUB_OFFLINE
        self._token = token
        self._timeout_seconds = timeout_seconds

    def page(self, name: str) -> str:
        return f"{self.endpoint}/{name}"

    def search(self, text: str, *, limit: int = 20) -> list[SearchResult]:
        """Up to `limit` repositories with `text` in their names, those for MLX first.

        Unusable models come last, each with a reason. Raises Problem.
        """
        limit = max(1, min(limit, _LARGEST_SEARCH))
        found = self._search(text, limit=limit, library="mlx")
        if len(found) < limit:
            known = {result.repository for result in found}
            others = self._search(text, limit=limit, library=None)
            found += [result for result in others if result.repository not in known]
        return sorted(found, key=lambda result: bool(result.reason))[:limit]

    def describe(self, name: str, revision: str | None = None) -> Repository:
        """Return the contents of the repository `name` at `revision`, by default its main branch.

        Raises Problem: no such model or revision, gated, offline, too many requests, ...
        """
        path = f"/api/models/{check_name(name)}"
        if revision is not None:
            path += f"/revision/{check_revision(revision).replace('/', '%2F')}"
        facts = self._json(path, {"blobs": True}, name=name)
        return parse_repository(facts, asked=name, revision=revision)

    def config(self, repository: Repository) -> dict[str, Any]:
        """Return the repository's config.json, without fetching anything else. Raises Problem."""
        data = self.read(repository, "config.json", maximum_bytes=MAXIMUM_CONFIG_BYTES)
        try:
            value = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise Problem(
                f"The config.json of {repository.name} is not a JSON object.",
                "Choose another model.",
            )
        return value

    def read(self, repository: Repository, file_name: str, *, maximum_bytes: int) -> bytes:
        """Return a file's bytes. Raises Problem if it is not listed, or larger than the limit."""
        listed = repository.file(file_name)
        if listed is None:
            raise Problem(f"{repository.name} has no {file_name}.", "Choose another model.")
        if listed.size_bytes > maximum_bytes:
            raise Problem(
                f"The {file_name} of {repository.name} is too large: {listed.size_bytes:,} bytes.",
                "Choose another model.",
            )

        def ask() -> bytes:
            with self.stream(repository, file_name) as response:
                return _body(response, maximum_bytes=maximum_bytes)

        data = self._patiently(ask, repository.name)
        if not is_content(data, listed.digest):
            raise Problem(
                f"{file_name} of {repository.name} came damaged.",
                "Try again. If it happens again, the network alters files.",
            )
        return data

    @contextmanager
    def stream(
        self, repository: Repository, file_name: str, *, start: int = 0, stop: int | None = None
    ) -> Iterator[httpx2.Response]:
        """Yield the response with these bytes of a file, as `Source` says.

        Raises what the client raises (see `problem`), OtherAnswer too, and Problem when offline.
        """
        listed = repository.file(file_name)
        url = hf_hub_url(repository.name, file_name, revision=repository.revision)
        url = self.endpoint + url.removeprefix(constants.ENDPOINT)
        with self._stream(url, {}, range_header(start, stop)) as response:
            require_file(response, listed.size_bytes if listed else 0)
            yield response

    def source(self, repository: Repository, file: RepositoryFile) -> Source:
        """Return a file of `repository`, to be transferred. Raises Problem if it is too large."""
        if file.size_bytes > constants.MAX_HTTP_DOWNLOAD_SIZE:
            raise Problem(
                f"{file.name} is too large to be fetched without Xet: {file.size_bytes:,} bytes.",
                f"Fetch it, then start again: hf download {repository.name} {file.name} "
                f"--revision {repository.revision}",
            )
        return Source(
            file.name,
            file.size_bytes,
            lambda start, stop: self.stream(repository, file.name, start=start, stop=stop),
            lambda error: self.problem(error, repository.name),
        )

    def problem(self, error: Exception, name: str) -> Problem:
        """Return the problem that an error of the hub's client about `name` means."""
        return explain(error, name=name, page=self.page(name))

    @contextmanager
    def _stream(
        self, url: str, params: dict[str, Any], headers: dict[str, str]
    ) -> Iterator[httpx2.Response]:
        if self.offline:
            raise offline_problem()
        headers = {"User-Agent": "slipstream", **headers}
        if token := self._find_token():
            headers["Authorization"] = f"Bearer {token}"
        with ExitStack() as stack:
            with naming_variables():
                stream = get_session().stream(
                    "GET", url, params=params, headers=headers, timeout=self._timeout_seconds
                )
                response = stack.enter_context(stream)
            if response.is_error:
                response.read()  # so that the client can tell what the hub says about it
            hf_raise_for_status(response)
            yield response

    def _find_token(self) -> str | None:
        token = self._token
        try:
            if token is None and not constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
                token = get_token()
            return token and token.encode("ascii").decode()
        except (OSError, ValueError) as error:
            raise Problem(
                "The token of the hub cannot be read.",
                "Correct HF_TOKEN, or sign in again: hf auth login",
            ) from error

    def _patiently(self, ask: Callable[[], bytes], name: str) -> bytes:
        """Return what `ask` returns; retry it as a download is retried. A longer wait, and a first
        request without a connection, fail at once. Raises Problem, about the repository `name`."""
        failures = 0
        while True:
            try:
                return ask()
            except ERRORS as error:
                failures += 1
                wait = pause_seconds(error, failures, self.wait_seconds)
                if isinstance(error, _UNCONNECTED) or wait is None or wait > _LONGEST_WAIT_SECONDS:
                    raise self.problem(error, name) from error
                time.sleep(wait)

    def _json(self, path: str, params: dict[str, Any], *, name: str) -> Any:
        def ask() -> bytes:
            with self._stream(self.endpoint + path, params, {}) as response:
                return _body(response, maximum_bytes=_MAXIMUM_ANSWER_BYTES)

        try:
            return json.loads(self._patiently(ask, name).decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise self.problem(OtherAnswer("it is not JSON"), name) from error

    def _search(self, text: str, *, limit: int, library: str | None) -> list[SearchResult]:
        params: dict[str, Any] = {"sort": "downloads", "limit": limit, "expand": _ASKED_OF_EACH}
        if text := one_line(text):  # without halves of characters, which no address may have
            params["search"] = text
        if library is not None:
            params["filter"] = library
        listed = self._json("/api/models", params, name="the search")
        if not isinstance(listed, list):
            raise self.problem(OtherAnswer("it is not a list"), "the search")
        signed_in = bool(self._find_token())
        found = [_found(facts, signed_in=signed_in) for facts in listed if isinstance(facts, dict)]
        return [result for result in found if result is not None]


def _found(facts: dict[str, Any], *, signed_in: bool) -> SearchResult | None:
    """Return a search result; None if the hub's entry is malformed."""
    try:
        name = check_name(facts["id"])
        names = [str(sibling["rfilename"]) for sibling in facts.get("siblings") or ()]
    except (LookupError, TypeError, AttributeError, Problem):
        return None
    gated = bool(facts.get("gated"))
    reason = why_not(names, facts=facts)
    if gated and not signed_in and not reason:
        reason = "It is gated: ask on its page, then sign in with `hf auth login`."
    return SearchResult(
        repository=name,
        downloads=_count(facts.get("downloads")),
        likes=_count(facts.get("likes")),
        updated=day[0] if (day := _DAY.match(str(facts.get("lastModified")))) else "",
        gated=gated,
        licence=licence(facts),
        size_bytes=_weights_bytes(facts.get("safetensors")),
        reason=reason,
    )


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0


def _weights_bytes(facts: Any) -> int | None:
    """Return the size of the weights, by the hub's count of numbers of each type."""
    parameters = facts.get("parameters") if isinstance(facts, dict) else None
    if not isinstance(parameters, dict) or not parameters:
        return None
    if not all(dtype in _BYTES_OF_DTYPE for dtype in parameters):
        return None
    return sum(_BYTES_OF_DTYPE[dtype] * _count(number) for dtype, number in parameters.items())


def _body(response: httpx2.Response, *, maximum_bytes: int) -> bytes:
    body = bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > maximum_bytes:
            raise Problem("The hub's answer is too long.", "Check the address of the hub.")
    return bytes(body)
