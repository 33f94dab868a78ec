"""A conversation with the agent: what its events mean, and how its questions are answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

from ._events import ServerSentEvent
from ._request import read_object, without_none
from .errors import A2SError, error_of_response
from .types import AgentEvent, AgentQuestion, AgentResponse

MAX_TURNS = 100

Answer: TypeAlias = "Mapping[str, Any] | str | int | bool | None"
"""The answer to a question: inputs by name, a choice (one of `choices`, its name or its number), a
text, a yes or no. None leaves the question open."""

OnEvent: TypeAlias = Callable[[AgentEvent], object]
OnQuestion: TypeAlias = Callable[[AgentQuestion], Answer]
OnConsent: TypeAlias = Callable[[AgentQuestion], bool]
AsyncOnQuestion: TypeAlias = Callable[[AgentQuestion], Awaitable[Answer]]
AsyncOnConsent: TypeAlias = Callable[[AgentQuestion], Awaitable[bool]]


def read_event(event: ServerSentEvent) -> AgentEvent:
    """Returns the event of a stream. Raises the error that a turn ended with."""
    members = read_object(event.data.encode("utf-8"))
    if event.event == "problem":
        raise error_of_response(int(members.get("status") or 500), members)
    return cast("AgentEvent", members)


def response_of(event: AgentEvent | None) -> AgentResponse:
    """Returns the response, which is the last event of a turn."""
    if event is None or event["type"] != "response":
        raise A2SError("the agent has not responded", hint="Ask again; nothing is stored.")
    members = {name: value for name, value in event.items() if name != "type"}
    return cast("AgentResponse", members)


def asks_consent(question: AgentQuestion) -> bool:
    """Returns whether a question wants a yes: to actions, to a message for another agent, or to a chain."""
    return any(question.get(member) for member in ("actions", "delegation", "proposal"))


def reply_to(question: AgentQuestion, answer: Answer) -> dict[str, Any]:
    """Returns the members of the request that answers a question."""
    if isinstance(answer, bool):
        return {"message": "yes" if answer else "no"}
    if isinstance(answer, (str, int)):
        return {"message": str(answer)}
    if answer in (question.get("choices") or []):
        return {"message": cast("Any", answer)["capability"]["name"]}
    return {"message": "", "inputs": answer}


def follow_up(request: Mapping[str, Any], response: AgentResponse, reply: Mapping[str, Any]) -> Any:
    """Returns the request of the next turn."""
    question = response.get("question")
    assert question is not None
    kept = without_none(**{name: request.get(name) for name in ("context", "strategy", "filters")})
    return {**kept, **reply, "session": response["session"], "pending": question["pending"]}
