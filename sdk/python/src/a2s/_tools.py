"""Capabilities in the form that a language model reads: names, schemas, and results."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from ._search import SearchHits
from .checksum import canonicalize
from .errors import A2SError, Drifted, InvalidInput, MissingInput, NeedsApproval
from .types import RunApproval

Ask: TypeAlias = Callable[[NeedsApproval, RunApproval], bool]
AsyncAsk: TypeAlias = Callable[[NeedsApproval, RunApproval], Awaitable[bool]]
"""Has a person asked about an approval that a run waits for, and returns the decision."""

OnStart: TypeAlias = Callable[[Any], None]

CONTINUE: Final = "The same call with the same inputs goes on with this run."
SEARCH: Final = "search_capabilities"
PLAN: Final = "plan_capability"
RUN: Final = "run_capability"

DESCRIPTIONS: Final = {
    SEARCH: "Finds capabilities that do a task. Describe one task in plain words. Use it first.",
    PLAN: "Shows what a run of a capability would do: requests, hosts, missing inputs. Sends nothing.",
    RUN: "Runs a capability that a search has found, with its inputs, and returns its output.",
}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_CAPABILITY: Final = {
    "type": "string",
    "description": f"The member `capability` of a result of {SEARCH}, such as `GetCountry@1.0.0`.",
}
_INPUTS: Final = {"type": "object", "description": "The inputs by name, as the search described them."}
SCHEMAS: Final = {
    SEARCH: _object(["intent"], intent={"type": "string", "description": "The task, in plain words."}),
    PLAN: _object(["capability"], capability=_CAPABILITY, inputs=_INPUTS),
    RUN: _object(["capability"], capability=_CAPABILITY, inputs=_INPUTS),
}


def input_schema(parameters: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the JSON Schema of the inputs that a document or a hit declares.

    Secret inputs are not part of it: a model must neither see nor invent them.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in parameters:
        if parameter.get("secret"):
            continue
        schema = dict(parameter.get("schema") or {})
        for member in ("type", "enum", "default", "description"):
            if member in parameter:
                schema[member] = parameter[member]
        properties[parameter["name"]] = schema
        if parameter.get("required", "default" not in parameter):
            required.append(parameter["name"])
    return _object(required, **properties)


def key_of(*parts: Any) -> str:
    """Returns an idempotency key for the call that these parts name: conversation, call and arguments."""
    return hashlib.sha256(canonicalize(list(parts))).hexdigest()


def tool_name(name: str) -> str:
    """Returns the name of a tool, in the letters that all models accept."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]


def handle_of(capability: Mapping[str, Any]) -> str:
    """Returns the short reference by which a model names a capability."""
    return f"{capability['name']}@{capability['version']}"


def describe_hits(hits: SearchHits) -> dict[str, Any]:
    """Returns a search as a model reads it."""
    if not hits:
        nearest = [f"{near['name']}: {near['description']}" for near in hits.nearest]
        return {"capabilities": [], "message": "nothing fits", "nearest": nearest}
    return {
        "capabilities": [
            {
                "capability": handle_of(hit),
                "description": hit["description"],
                "match": hit.get("match"),
                "inputs": input_schema(list(hit["parameters"])),
                **({"extracted": hit["extracted"]} if hit.get("extracted") else {}),
            }
            for hit in hits
        ]
    }


def describe_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a plan as a model reads it."""
    members = ("missing", "hosts", "permissions", "steps", "no_token_reason")
    return {name: plan[name] for name in members if plan.get(name)}


def describe_error(error: A2SError) -> dict[str, Any]:
    """Returns an error as a model reads it: what happened, and what to do."""
    members: dict[str, Any] = {
        "error": type(error).__name__,
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "next": error.next,
        "run": error.run and error.run.id,
    }
    if isinstance(error, MissingInput):
        members["missing"] = error.missing
    if isinstance(error, NeedsApproval):
        members["approvals"] = error.approvals
        members["hint"] = " ".join([error.hint or "", CONTINUE]).strip()
    if isinstance(error, Drifted):
        members["differences"] = error.differences
    return {name: value for name, value in members.items() if value}


def wants_approval(plan: Mapping[str, Any]) -> bool:
    """Returns whether the guardian wants the approval of a person for a step of a plan with a preview."""
    return any("approval_required" in (it.get("reason_codes") or ()) for it in _decisions(plan["steps"]))


def _decisions(value: Any) -> list[Mapping[str, Any]]:
    """Returns all decisions of previews within steps."""
    if isinstance(value, list):
        return [decision for item in value for decision in _decisions(item)]
    if not isinstance(value, Mapping):
        return []
    found = [it for it in value.get("decisions") or () if isinstance(it, Mapping)]
    for name in ("steps", "if_true", "if_false", "catch", "preview", "items"):
        found += _decisions(value.get(name))
    return found


def as_text(result: Any) -> str:
    """Returns a result as text, for hosts whose tools return text."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def read_arguments(text: str) -> dict[str, Any]:
    """Parses the arguments that a model wrote."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the arguments are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidInput("the arguments are not an object")
    return value
