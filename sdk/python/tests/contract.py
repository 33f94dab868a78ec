"""Replays recorded exchanges: the SDK must send exactly the recorded requests, and give the same results."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

import a2s
from support import Driver, Json, Received, Reply, serve


class Clock:
    """A clock that goes on by itself, and a day at a time when a caller shall not wait any more."""

    def __init__(self) -> None:
        self._days = 0

    def __call__(self) -> float:
        return time.monotonic() + self._days * 86_400.0

    def end_day(self) -> None:
        self._days += 1


@dataclass
class Replay:
    """A server that expects the recorded requests, in order."""

    exchanges: list[Json]
    clock: Clock
    differences: list[str] = field(default_factory=list)
    position: int = 0

    def __call__(self, received: Received) -> Reply:
        if self.position == len(self.exchanges):
            self.differences.append(f"unexpected request: {received.method} {received.path}")
            return Reply(599)
        exchange = self.exchanges[self.position]
        self.position += 1
        self._compare(exchange["request"], received)
        return _reply(exchange["response"], self.clock)

    def expect(self, exchanges: list[Json]) -> None:
        self.exchanges = self.exchanges + exchanges

    def check(self) -> None:
        left = self.exchanges[self.position :]
        for exchange in left:
            request = exchange["request"]
            self.differences.append(f"not sent: {request['method']} {request['path']}")
        assert not self.differences, "\n".join(self.differences)

    def _compare(self, expected: Json, received: Received) -> None:
        def differ(what: str, wanted: Json, found: Json) -> None:
            if wanted != found:
                self.differences.append(f"request {self.position}: {what} is {found!r}, not {wanted!r}")

        differ("method", expected["method"], received.method)
        differ("path", expected["path"], received.path)
        for name, value in (expected.get("headers") or {}).items():
            found = received.headers.get(name.lower())
            if value == "*":
                differ(f"presence of {name}", True, bool(found))
            else:
                differ(name, value, found)
        if "text" in expected:
            differ("body", expected["text"], received.body.decode())
        elif "body" in expected:
            differ("body", expected["body"], json.loads(received.body) if received.body else None)
        else:
            differ("body", b"", received.body)


def _reply(response: Json, clock: Clock) -> Reply:
    if "status" not in response:
        return Reply(None)
    if "text" in response:
        body = response["text"].encode()
    else:
        body = json.dumps(response["body"]).encode() if "body" in response else b""
    skipped = ("content-length", "transfer-encoding", "connection")
    headers = {n: str(v) for n, v in (response.get("headers") or {}).items() if n.lower() not in skipped}
    body = body.replace(b"(pad)", b"x" * response.get("pad", 0))
    hold = clock.end_day if response.get("hold") else None
    return Reply(
        response["status"], headers, body, bool(response.get("cut")), bool(response.get("stall")), hold
    )


def replay(kind: str, case: Json) -> None:
    """Replays one case."""
    clock = Clock()
    server = Replay(list(case["exchanges"]), clock)
    with serve(server) as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[f"a2s._{kind}.transport"], "now", clock)
        for name, value in case.get("environment", {}).items():
            patch.setenv(name, value.replace("{server}", url))
        try:
            _replay_settings(kind, url, server, case)
        finally:
            server.check()


def _replay_settings(kind: str, url: str, server: Replay, case: Json) -> None:
    settings = {"url": url, **case.get("settings", {})}
    try:
        driver = Driver(kind, **settings)
    except a2s.A2SError as error:
        _compare_error(case["error"], error)
        return
    with driver:
        _replay_call(driver, server, driver.registry, case)


def _replay_call(driver: Driver, server: Replay, subject: Any, case: Json) -> None:
    outcome: Any
    try:
        outcome = _call(driver, subject, case["call"], case.get("arguments") or {})
    except a2s.A2SError as error:
        if "error" not in case:
            raise
        _compare_error(case["error"], error)
        outcome = error
    else:
        assert "error" not in case, f"no error, but {outcome!r}"
        if "result" in case:
            assert to_json(outcome) == case["result"]
    for following in case.get("then") or []:
        server.expect(following["exchanges"])
        _replay_call(driver, server, outcome, following)


def _call(driver: Driver, subject: Any, name: str, arguments: Mapping[str, Json]) -> Any:
    arguments = dict(arguments)
    if subject is not driver.registry:
        return driver.finish(getattr(subject, name)(**arguments))
    if name in ("canonicalize", "compute_checksum"):
        return getattr(a2s, name)(*arguments.values())
    if name == "handle_request":
        return _handle_request(driver, arguments)
    if "for" in arguments:
        arguments["audience"] = arguments.pop("for")
    if "on_abort" in arguments:
        # Long before this, the clock of the test goes on.
        arguments["timeout"] = 3600.0
    if "plan" in arguments or "capability_or_plan" in arguments:
        arguments["capability"] = arguments.pop("plan", None) or arguments.pop("capability_or_plan")
    return driver.call(name, **arguments)


def _handle_request(driver: Driver, arguments: dict[str, Json]) -> Any:
    """The answers of a person stand in the arguments, in the order of the questions."""
    for name in ("on_question", "on_consent"):
        if name in arguments:
            answers = arguments[name] if isinstance(arguments[name], list) else [arguments[name]]
            given = iter(answers)
            arguments[name] = driver.callback(partial(_next, given))
    return driver.finish(driver.agent().handle_request(**arguments))


def _next(answers: Iterator[Json], question: Json) -> Json:
    return next(answers)


def _compare_error(expected: Json, error: a2s.A2SError) -> None:
    assert type(error).__name__ == expected["class"], repr(error)
    for name, value in expected.items():
        if name == "run":
            assert (error.run and error.run.id) == value
        elif name != "class":
            assert to_json(getattr(error, name)) == value, name


def to_json(value: Any) -> Json:
    """Returns a result in the form of the contract."""
    if isinstance(value, a2s.SearchHits):
        members = {"hits": list(value), "metadata": value.metadata}
        if "nearest" in value.metadata:
            members["nearest"] = value.nearest
        return {**members, "next": value.next} if value.next is not None else members
    if isinstance(value, a2s.ServiceHits):
        return {"services": list(value), "metadata": value.metadata}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list):
        return [to_json(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value
