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
from typing import Any, TypeAlias, TypeGuard
from urllib.parse import quote, urlencode

from ._typed import TypedCapability
from .checksum import compute_checksum, normalize_checksum
from .errors import A2SError, InvalidInput, MissingInput
from .types import CapabilityRef

TRIES = 3
MAX_PAUSE = 60.0
MAX_BODY = 64 * 1024 * 1024

Capability: TypeAlias = Mapping[str, Any] | str
"""A capability as a hit of a search, a reference, a document, a plan, or `NAME@VERSION#CHECKSUM`."""

AnyCapability: TypeAlias = Capability | TypedCapability[Any, Any]

Given: TypeAlias = Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None

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
    waits: bool = False
    """True when only the caller limits the time of the response."""

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
    headers: Mapping[str, str] | None = None,
    repeatable: bool = False,
    waits: bool = False,
) -> Request:
    """A request that does something."""
    content_type, content = ({}, None) if body is None else _json(body)
    return Request(
        "POST",
        path(*segments),
        headers={**content_type, **(headers or {})},
        content=content,
        repeatable=repeatable,
        waits=waits,
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
    """The pauses of an SDK: what `Retry-After` says, else about 0.5 and 2 seconds, and at most 30."""
    if retry_after is not None:
        return retry_after
    return min(0.5 * 4.0 ** min(tried - 1, 3), 30.0) * random.uniform(0.75, 1.25)


def may_repeat(error: A2SError, tried: int) -> bool:
    """Returns whether a request that was refused may be sent again: the service is busy, but not for long."""
    is_busy = error.status in (429, 503)
    return is_busy and tried < TRIES and (error.retry_after or 0) <= MAX_PAUSE


def read_retry_after(text: str | None) -> float | None:
    """Reads the header `Retry-After`: seconds or a date."""
    if not text:
        return None
    if re.fullmatch(r"\d{1,9}", text):
        return float(text)
    try:
        at = email.utils.parsedate_to_datetime(text)
        return max(0.0, at.timestamp() - time.time())
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
