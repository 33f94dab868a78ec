"""Requests as values: what an operation sends, and what may be done when it fails."""

from __future__ import annotations

import email.utils
import json
import random
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeGuard
from urllib.parse import quote, urlencode

from ._typed import TypedCapability
from .checksum import compute_checksum, normalize_checksum
from .errors import A2SError, InvalidInput, MissingInput
from .types import CapabilityRef

MAX_PAUSE = 60.0
# The statuses after which any request may be sent again, and those after which a repetition must be safe.
_BUSY = (429, 503)
_BROKEN = (408, 500, 502, 504)
MAX_BODY = 64 * 1024 * 1024

Capability: TypeAlias = Mapping[str, Any] | str
"""A capability as a hit of a search, a reference, a document, a plan, or `NAME@VERSION#CHECKSUM`."""

AnyCapability: TypeAlias = Capability | TypedCapability[Any, Any]

Given: TypeAlias = Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None

OnAbort: TypeAlias = Literal["cancel", "detach"]
"""The fate of a run whose caller does not wait for it any more: it is cancelled, or goes on."""

Document: TypeAlias = Mapping[str, Any] | str
"""A document as YAML or JSON text, or as an object."""

Pause: TypeAlias = Callable[[int, "float | None"], float]
"""The seconds to wait after the given try, and after the given `Retry-After`."""


@dataclass(frozen=True)
class Request:
    """One request to A2S."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    repeatable: bool = False
    """True when the request may be sent again after a lost connection."""
    streams: bool = False
    """True when the response has no end of its own: silence is limited instead of time."""

    @property
    def target(self) -> str:
        """The path with its query, whose parameters are in alphabetical order."""
        query = [
            (name, str(value).lower() if isinstance(value, bool) else str(value))
            for name, value in sorted(self.query.items())
            if value is not None
        ]
        return self.path + ("?" + urlencode(query, quote_via=quote) if query else "")


def get(*segments: str, query: Mapping[str, Any] | None = None) -> Request:
    """A request that reads."""
    return Request("GET", path(*segments), query or {}, repeatable=True)


def put(*segments: str, body: Any, query: Mapping[str, Any] | None = None) -> Request:
    """A request that sets a value."""
    return Request("PUT", path(*segments), query or {}, *_json(body), repeatable=True)


def delete(*segments: str, query: Mapping[str, Any] | None = None) -> Request:
    """A request that removes something."""
    return Request("DELETE", path(*segments), query or {}, repeatable=True)


def post(
    *segments: str,
    body: Any = None,
    query: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    repeatable: bool = False,
    streams: bool = False,
) -> Request:
    """A request that does something."""
    content_type, content = ({}, None) if body is None else _json(body)
    return Request(
        "POST",
        path(*segments),
        query=query or {},
        headers={**content_type, **(headers or {})},
        content=content,
        repeatable=repeatable,
        streams=streams,
    )


def post_document(*segments: str, document: Document) -> Request:
    """A request with a document as its body."""
    if isinstance(document, str):
        headers, content = {"Content-Type": "application/yaml"}, _encode(document)
    else:
        headers, content = _json(document)
    return Request("POST", path(*segments), headers=headers, content=content, repeatable=True)


def path(*segments: str) -> str:
    """Returns the path of a route below `/v1`.

    Raises `InvalidInput` for a segment that would lead to another route.
    """
    for segment in segments:
        if segment in ("", ".", ".."):
            raise InvalidInput(f"{segment!r} cannot be a name or an id")
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)


def with_query(request: Request, query: Mapping[str, Any]) -> Request:
    """Returns the request with other parameters."""
    return replace(request, query=query)


def without_none(**members: Any) -> dict[str, Any]:
    """Returns the members that have a value."""
    return {name: value for name, value in members.items() if value is not None}


def default_pause(tried: int, retry_after: float | None) -> float:
    """The pauses of all SDKs: `Retry-After`, else 0.5 seconds, doubled up to 10, give or take 25 %."""
    if retry_after is not None:
        return retry_after
    return _even_pause(tried) * random.uniform(0.75, 1.25)


def _even_pause(tried: int) -> float:
    return min(0.5 * 2.0 ** min(tried - 1, 5), 10.0)


@dataclass(frozen=True)
class Policy:
    """The rules for further tries, for lost streams, and for silence."""

    attempts: int = 3
    """The largest number of tries of a request."""
    pause: Pause = default_pause
    reconnect: float = 300.0
    """The seconds, in pauses, for which a lost stream or a run that is waited for is tried again."""
    idle_timeout: float = 45.0
    """The seconds of silence after which a stream counts as lost."""
    approval_pause: float = 2.0
    """The seconds between two reads of a run that waits for a person."""


class Retries:
    """The tries of one request, or of one stream since its last progress."""

    def __init__(self, policy: Policy, repeatable: bool, is_patient: bool = False) -> None:
        self._policy = policy
        self._repeatable = repeatable
        self._is_patient = is_patient
        self._tried = 0
        self._paused = 0.0

    def note_progress(self) -> None:
        """Begins anew: A2S is there, so that a restart is the likely reason of the next loss."""
        self._tried, self._paused, self._is_patient = 0, 0.0, True

    def next_pause(self, error: A2SError | None = None) -> float | None:
        """Returns the seconds until another try; none when it must not follow.

        Without an error, the connection was lost.
        """
        self._tried += 1
        retry_after = error.retry_after if error else None
        status = error.status if error else None
        is_safe = self._repeatable and (error is None or status in _BROKEN)
        if not (is_safe or status in _BUSY) or (retry_after or 0) > MAX_PAUSE:
            return None
        self._paused += _even_pause(self._tried)
        is_over = (
            self._paused > self._policy.reconnect
            if self._is_patient
            else self._tried >= self._policy.attempts
        )
        return None if is_over else self._policy.pause(self._tried, retry_after)


def read_retry_after(text: str | None, date: str | None = None) -> float | None:
    """Reads the header `Retry-After`: seconds, or a date, which counts from the `Date` of the response."""
    if not text:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
        return float(text)
    at = _read_date(text)
    return None if at is None else max(0.0, at - (_read_date(date) or time.time()))


def _read_date(text: str | None) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


def read_json(content: bytes) -> Any:
    """Parses a response. Raises `A2SError` for what is not JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise A2SError(f"the response is not JSON: {error}") from None


def read_object(content: bytes) -> dict[str, Any]:
    """Parses a response that is an object."""
    value = read_json(content)
    if not isinstance(value, dict):
        raise A2SError("the response is not an object")
    return value


def read_list(value: Mapping[str, Any], name: str) -> list[Any]:
    """Returns a list within a response."""
    items = value.get(name)
    if not isinstance(items, list):
        raise A2SError(f"the response has no list `{name}`")
    return items


def read_problem(content: bytes) -> Any:
    """Parses the body of an error; none when it is not JSON."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def new_key() -> str:
    """Returns a new idempotency key."""
    return str(uuid.uuid4())


def reference_of(capability: AnyCapability) -> dict[str, str]:
    """Returns the name of a capability, with the version and the checksum as far as they are known."""
    if isinstance(capability, str):
        match = re.fullmatch(r"([^@#]+)(?:@([^@#]+))?(?:#(.+))?", capability)
        if match is None:
            raise InvalidInput(f"{capability!r} is not NAME, NAME@VERSION or NAME@VERSION#CHECKSUM")
        name, version, checksum = match.groups()
    elif is_plan(capability):
        return reference_of(capability["capability"])
    elif not isinstance(capability, Mapping):
        name, version, checksum = capability.name, capability.version, capability.checksum
    else:
        name, version = capability.get("name"), capability.get("version")
        if not isinstance(name, str):
            raise InvalidInput("the capability has no name")
        is_whole = is_document(capability)
        checksum = compute_checksum(capability) if is_whole else capability.get("checksum")
    # A checksum that cannot be read must not become a run of any content.
    if checksum is not None and normalize_checksum(checksum) is None:
        raise InvalidInput(f"{checksum!r:.100} is not a checksum")
    return without_none(name=name, version=version, checksum=normalize_checksum(checksum))


def checksum_of(capability: AnyCapability) -> str | None:
    """Returns the checksum that a run of the capability must have, if the caller has named one."""
    return reference_of(capability).get("checksum")


def is_plan(capability: AnyCapability) -> TypeGuard[Mapping[str, Any]]:
    """Returns whether the capability is a plan."""
    return isinstance(capability, Mapping) and "capability" in capability and "steps" in capability


def is_document(capability: AnyCapability) -> TypeGuard[Mapping[str, Any]]:
    """Returns whether the capability is a document."""
    return isinstance(capability, Mapping) and "execution" in capability


def values_of(inputs: Given) -> Mapping[str, Any] | None:
    """Returns the inputs of a call."""
    return inputs() if callable(inputs) else inputs


def start_of(
    capability: AnyCapability,
    inputs: Given,
    session: str | None,
    lock: list[CapabilityRef] | None = None,
) -> dict[str, Any]:
    """Returns the body of a start of a run.

    Raises `MissingInput` and `InvalidInput` for a plan that cannot start.
    """
    if not is_plan(capability):
        return {
            **reference_of(capability),
            **without_none(inputs=values_of(inputs), session=session, lock=lock),
        }
    if inputs or session:
        raise InvalidInput("a plan has its inputs and its session already; make another plan")
    if capability.get("token"):
        return {"plan": capability["token"]}
    missing = [{"name": name} for name in capability.get("missing", ())]
    reason = capability.get("no_token_reason") or "the plan cannot be started"
    if missing:
        raise MissingInput(reason, code="A2S320", problem={"missing": missing})
    raise InvalidInput(reason)


def _json(body: Any) -> tuple[dict[str, str], bytes]:
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the value cannot be written as JSON: {error}") from None
    return {"Content-Type": "application/json"}, _encode(text)


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInput(f"the text cannot be written as UTF-8: {error}") from None
