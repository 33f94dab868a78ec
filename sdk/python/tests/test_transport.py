"""Requests, responses, streams, and their failures."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import a2s
from a2s import _request
from a2s._events import EventReader
from a2s._request import read_retry_after, reference_of
from a2s._settings import resolve_token, resolve_url
from support import (
    TOKEN,
    Driver,
    Received,
    Reply,
    Script,
    problem,
    reply_events,
    reply_json,
    serve,
)

PIN = "sha256:" + "ab" * 32
PINNED = {"name": "A", "version": "1.0.0", "checksum": PIN}
RUN = {"id": "r", "status": "succeeded", "output": {"x": 1}}


def test_each_request_names_itself(kind: str) -> None:
    script = Script([reply_json({"points": 1})])
    with serve(script) as url, Driver(kind, url, on_behalf_of="ann") as driver:
        driver.call("get_index")
    headers = script.received[0].headers
    assert headers["accept"] == "application/json"
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["a2s-on-behalf-of"] == "ann"


def test_address_with_a_path_and_names_with_signs(kind: str) -> None:
    script = Script([reply_json({"entries": []}), reply_json({"name": "x", "value": 1})])
    with serve(script) as url, Driver(kind, url + "/a2s/") as driver:
        driver.call("list_state", "a b/c?d#e%41", "everybody")
        driver.call("set_state", "x", None)
    assert script.received[0].path == "/a2s/v1/sessions/a%20b%2Fc%3Fd%23e%2541/state?for=everybody"
    assert script.received[1].body == b"null"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_names_that_lead_elsewhere(kind: str, name: str) -> None:
    script = Script([])
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.InvalidInput):
        driver.call("get_capability", name, "1.0.0")
    assert script.received == []


def test_keys_of_starts(kind: str) -> None:
    script = Script([reply_json(RUN)] * 3)
    with serve(script) as url, Driver(kind, url) as driver:
        driver.call("run", "A")
        driver.call("run", "A")
        driver.call("run", "A", idempotency_key="mine")
    keys = [received.headers["idempotency-key"] for received in script.received]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


def test_a_repeated_start_keeps_its_key(kind: str) -> None:
    script = Script([Reply(None), reply_json({}, 503), reply_json(RUN)])
    with serve(script) as url, Driver(kind, url) as driver:
        assert driver.call("run", "A").output == {"x": 1}
    assert len({received.headers["idempotency-key"] for received in script.received}) == 1


REPEATED = {
    "search_capabilities": ("x",),
    "plan": ("A",),
    "verify_stored": ("A",),
    "publish": ("a: 1",),
    "validate": ("a: 1",),
    "run": ("A",),
    "trigger": ({"type": "t", "id": "1"}, "A"),
    "get_run": ("r",),
    "set_state": ("x", 1),
    "delete_run": ("r",),
}
NOT_REPEATED = {
    "approve": ("p",),
    "reject": ("p",),
    "resume_run": ("r", "repeat"),
    "cancel_run": ("r",),
    "create_token": ("ci", ["execute"]),
    "introspect_token": ("t",),
}


@pytest.mark.parametrize("name", [*REPEATED, *NOT_REPEATED])
def test_lost_connections(kind: str, name: str) -> None:
    arguments = {**REPEATED, **NOT_REPEATED}[name]
    script = Script([Reply(None)] * 9)
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.NotReachable) as caught:
        driver.call(name, *arguments)
    assert len(script.received) == (3 if name in REPEATED else 1)
    assert caught.value.code is None
    assert url in caught.value.message


@pytest.mark.parametrize("name", [*REPEATED, *NOT_REPEATED])
@pytest.mark.parametrize("status", [429, 503])
def test_busy_services(kind: str, name: str, status: int) -> None:
    arguments = {**REPEATED, **NOT_REPEATED}[name]
    busy = Reply(status, {"Retry-After": "7"}, b"{}")
    script = Script([busy] * 9)
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.Busy) as caught:
        driver.call(name, *arguments)
    assert len(script.received) == 3
    assert caught.value.retry_after == 7


def test_pauses(kind: str) -> None:
    pauses: list[tuple[int, float | None]] = []

    def pause(tried: int, retry_after: float | None) -> float:
        pauses.append((tried, retry_after))
        return 0.0

    script = Script([Reply(None), Reply(503, {"Retry-After": "2"}), reply_json({"points": 1})])
    with serve(script) as url, Driver(kind, url, pause=pause) as driver:
        driver.call("get_index")
    assert pauses == [(1, None), (2, 2.0)]


def test_a_pause_that_is_too_long_is_an_error(kind: str) -> None:
    script = Script([Reply(429, {"Retry-After": "3600"})])
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.Busy) as caught:
        driver.call("get_index")
    assert caught.value.retry_after == 3600
    assert len(script.received) == 1


def test_default_pauses() -> None:
    assert _request.default_pause(1, 5.0) == 5.0
    assert 0.3 < _request.default_pause(1, None) < 0.7
    assert 0.7 < _request.default_pause(2, None) < 1.3
    assert _request.default_pause(10_000, None) <= 12.5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), ("0.5", 0.5), ("", None), (None, None), ("soon", None), ("-1", None), ("1e9", None)],
)
def test_retry_after(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text) == seconds


def test_retry_after_as_a_date() -> None:
    assert read_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    # The clock of the server counts, not that of this machine.
    now = "Wed, 21 Oct 2015 07:27:48 GMT"
    assert read_retry_after("Wed, 21 Oct 2015 07:28:00 GMT", now) == 12.0


def test_redirects_are_not_followed(kind: str) -> None:
    elsewhere = Script([reply_json({})])
    with serve(elsewhere) as other:
        script = Script([Reply(307, {"Location": other + "/v1/index"})])
        with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.A2SError) as caught:
            driver.call("get_index")
    assert caught.value.status == 307
    assert elsewhere.received == []


def test_large_responses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_request, "MAX_BODY", 100)
    script = Script([reply_json({"points": "x" * 200}), reply_json({"points": 1})])
    with serve(script) as url, Driver(kind, url) as driver:
        with pytest.raises(a2s.A2SError, match="longer than"):
            driver.call("get_index")
        assert driver.call("get_index") == {"points": 1}


@pytest.mark.parametrize(
    "body", [b"<html>", b"[" * 100_000, b"[]", b"", b'{"points":' + b"9" * 5000 + b"}", b"\xff"]
)
def test_responses_that_are_not_objects(kind: str, body: bytes) -> None:
    with serve(Script([Reply(200, {}, body)])) as url, Driver(kind, url) as driver:
        try:
            driver.call("get_index")
        except a2s.A2SError:
            return
    # Python 3.10 reads integers of any length.
    assert body.startswith(b'{"points":9')


@pytest.mark.parametrize("body", [{}, {"capabilities": 1}, {"capabilities": None}])
def test_pages_without_their_list(kind: str, body: Any) -> None:
    with (
        serve(Script([reply_json(body)])) as url,
        Driver(kind, url) as driver,
        pytest.raises(a2s.A2SError, match="no list"),
    ):
        driver.call("list_capabilities")


def test_a_page_that_names_itself(kind: str) -> None:
    page = reply_json({"capabilities": [], "next": "A"})
    script = Script([page] * 5)
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.A2SError, match="itself"):
        driver.call("list_capabilities")
    assert len(script.received) == 2


@contextmanager
def silent_server() -> Iterator[str]:
    """A server that accepts and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_time_limit(kind: str) -> None:
    with (
        silent_server() as url,
        Driver(kind, url, timeout=0.05) as driver,
        pytest.raises(a2s.NotReachable, match="in time"),
    ):
        driver.call("get_index")


def test_time_limit_of_a_start_that_waits(kind: str) -> None:
    with (
        silent_server() as url,
        Driver(kind, url) as driver,
        pytest.raises(a2s.NotReachable, match="in time"),
    ):
        driver.call("run", "A", timeout=0.05)


def test_a_response_that_never_ends(kind: str) -> None:
    stop = threading.Event()

    def drip(received: Received) -> Reply:
        return Reply(None)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{")
                while not stop.wait(0.01):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        return

        thread = threading.Thread(target=accept)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Driver(kind, url, timeout=0.2) as driver, pytest.raises(a2s.NotReachable, match="in time"):
            driver.call("get_index")
        stop.set()
        thread.join()


@pytest.mark.parametrize("value", [float("nan"), {"x": {1}}, "\ud800", object()])
def test_values_that_cannot_be_sent(kind: str, value: Any) -> None:
    script = Script([])
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.InvalidInput):
        driver.call("set_state", "x", value)
    assert script.received == []


@pytest.mark.parametrize("key", ["a\nb: c", "é\u20ac"])
def test_headers_that_cannot_be_sent(kind: str, key: str) -> None:
    script = Script([])
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.InvalidInput):
        driver.call("run", "A", idempotency_key=key)
    assert script.received == []


def test_a_client_of_your_own() -> None:
    script = Script([reply_json({"points": 1})])
    with serve(script) as url, httpx.Client(headers={"X-Mine": "1"}) as client:
        with a2s.A2SRegistry(url, client=client) as registry:
            registry.get_index()
        assert not client.is_closed
    assert script.received[0].headers["x-mine"] == "1"


# Streams


def event(seq: int, type: str = "sending") -> Any:
    return {"seq": seq, "type": type, "run": "r"}


def test_streams_resume_without_gaps_and_repetitions(kind: str) -> None:
    script = Script(
        [
            reply_events(event(1), event(2), cut=True),
            Reply(None),
            reply_json({}, 503),
            reply_events(event(3)),
            reply_events(event(4), event(5, "run_finished")),
        ]
    )
    with serve(script) as url, Driver(kind, url) as driver:
        assert [e["seq"] for e in driver.call("events", "r")] == [1, 2, 3, 4, 5]
    ids = [received.headers.get("last-event-id") for received in script.received]
    assert ids == [None, "2", "2", "2", "3"]


def test_streams_that_stay_away(kind: str) -> None:
    script = Script([reply_events(event(1), cut=True)] + [Reply(None)] * 99)
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.NotReachable):
        driver.call("events", "r")
    # Pauses of 0.5, 1, 2, 4, 8 and then 10 seconds make up five minutes.
    assert len(script.received) == 34


def test_a_stream_that_never_was_there_gets_the_tries_of_a_request(kind: str) -> None:
    script = Script([Reply(None)] * 9)
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.NotReachable):
        driver.call("events", "r")
    assert len(script.received) == 3


def test_the_events_of_a_run_end_where_it_waits(kind: str) -> None:
    events = [event(1, "run_waiting"), event(2, "run_queued")]
    with serve(Script([reply_events(*events)])) as url, Driver(kind, url) as driver:
        assert len(driver.call("events", "r", after=0)) == 1


def test_changes_are_followed() -> None:
    script = Script([reply_events(event(8, "publish"), event(9, "yank")), reply_events(event(10, "publish"))])
    with serve(script) as url, Driver("sync", url) as driver:
        changes = driver.registry.follow_changes(since=7)
        assert [next(changes)["seq"] for _ in range(3)] == [8, 9, 10]
        changes.close()
    assert [r.path for r in script.received] == ["/v1/changes?since=7"] * 2
    assert script.received[1].headers["last-event-id"] == "9"


def test_a_turn_of_the_agent_is_not_repeated(kind: str) -> None:
    script = Script([reply_json({}, 503), Reply(None)])
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.NotReachable):
        driver.finish(driver.agent().handle_request("hello"))
    assert len(script.received) == 2


def test_a_turn_that_ends_without_a_response(kind: str) -> None:
    script = Script([Reply(200, {}, b'event: heard\ndata: {"type":"heard"}\n\n')])
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.A2SError, match="responded"):
        driver.finish(driver.agent().handle_request("hello"))


def test_a_turn_that_ends_with_a_problem(kind: str) -> None:
    body = {"status": 503, "code": "A2S603", "detail": "too many turns"}
    script = Script([Reply(200, {}, f"event: problem\ndata: {json.dumps(body)}\n\n".encode())])
    with serve(script) as url, Driver(kind, url) as driver, pytest.raises(a2s.Busy, match="too many turns"):
        driver.finish(driver.agent().handle_request("hello"))


def test_the_next_registry_is_asked_when_nothing_fits() -> None:
    def respond(status: str) -> Reply:
        members = {"type": "response", "session": "s", "status": status}
        return Reply(200, {}, f"event: response\ndata: {json.dumps(members)}\n\n".encode())

    first, second, third = (Script([respond(status)]) for status in ("nothing_fits", "completed", "failed"))
    with serve(first) as one, serve(second) as two, serve(third) as three:
        agent = a2s.A2SAgent().use_registries([a2s.A2SRegistry(url) for url in (one, two, three)])
        assert agent.handle_request("hello")["status"] == "completed"
    assert [len(s.received) for s in (first, second, third)] == [1, 1, 0]
    assert agent.session == "s"


def test_an_agent_without_registries() -> None:
    with pytest.raises(a2s.A2SError, match="no registry"):
        a2s.A2SAgent().handle_request("hello")


def read(*chunks: bytes) -> list[tuple[str | None, str, str]]:
    reader = EventReader()
    return [(e.id, e.event, e.data) for chunk in chunks for e in reader.feed(chunk)]


def test_events_of_a_stream() -> None:
    text = (
        b": remark\r\nid: 1\r\nevent: a\r\ndata: x\r\ndata:  y\r\n\r\ndata\n\nid: 2\n\ndata: z\r\rdata: cut"
    )
    expected = [("1", "a", "x\n y"), ("1", "message", ""), ("2", "message", "z")]
    assert read(text) == expected
    assert read(*(text[i : i + 1] for i in range(len(text)))) == expected


def test_long_lines_and_events(monkeypatch: pytest.MonkeyPatch) -> None:
    long = b"x" * (9 * 1024 * 1024)
    assert read(b"data: ", long, b"\n\n") == [(None, "message", long.decode())]
    monkeypatch.setattr("a2s._events.MAX_EVENT", 10)
    with pytest.raises(a2s.A2SError, match="64 MiB"):
        read(b"data: 123456\ndata: 123456\n")


# Address and token


def test_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A2S_URL", raising=False)
    assert str(resolve_url(None)) == "http://127.0.0.1:8740"
    monkeypatch.setenv("A2S_URL", "https://a2s.example/x/")
    assert str(resolve_url(None)) == "https://a2s.example/x"
    assert str(resolve_url("http://[::1]:1")) == "http://[::1]:1"
    for address in ("ftp://x", "x", "http://", "http://u:p@x", "http://x?y=1", "http://x#y"):
        with pytest.raises(a2s.InvalidInput, match="address"):
            resolve_url(address)


def test_the_token_of_the_environment_has_an_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2S_TOKEN", "4")
    monkeypatch.setenv("A2S_DATA_DIR", "/nonexistent")
    monkeypatch.delenv("A2S_URL", raising=False)
    assert resolve_token(None, resolve_url("http://127.0.0.1:1"), None) == "4"
    assert resolve_token(None, resolve_url("https://a2s.example"), None) is None
    monkeypatch.setenv("A2S_URL", "https://a2s.example/base")
    assert resolve_token(None, resolve_url("https://a2s.example:443/other"), None) == "4"
    for elsewhere in ("http://127.0.0.1:1", "https://a2s.example:444", "https://b.example"):
        assert resolve_token(None, resolve_url(elsewhere), None) is None


def test_no_token_over_plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = resolve_url("http://a2s.example")
    monkeypatch.delenv("A2S_ALLOW_INSECURE_TOKENS", raising=False)
    with pytest.raises(a2s.InvalidInput, match="plain http"):
        resolve_token("5", elsewhere, None)
    assert resolve_token("5", elsewhere, True) == "5"
    assert resolve_token("5", resolve_url("http://[::1]:1"), None) == "5"
    monkeypatch.setenv("A2S_ALLOW_INSECURE_TOKENS", "true")
    assert resolve_token("5", elsewhere, None) == "5"
    with pytest.raises(a2s.InvalidInput, match="plain http"):
        resolve_token("5", elsewhere, False)


def test_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("A2S_URL", "A2S_TOKEN", "A2S_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    for folder, text in (("data", "1\n"), ("xdg/a2s", "2"), ("home/.local/share/a2s", "3")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "token").write_text(text)
    monkeypatch.setenv("HOME", str(home))
    here = resolve_url("http://localhost:8740")
    assert resolve_token(None, here, None) == "3"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert resolve_token(None, here, None) == "2"
    monkeypatch.setenv("A2S_DATA_DIR", str(tmp_path / "data"))
    assert resolve_token(None, here, None) == "1"
    for elsewhere in ("https://a2s.example", "http://localhost.example", "http://10.0.0.1"):
        assert resolve_token(None, resolve_url(elsewhere), None) is None
    monkeypatch.setenv("A2S_TOKEN", "4")
    assert resolve_token(None, here, None) == "4"
    assert resolve_token("5", here, None) == "5"
    monkeypatch.delenv("A2S_TOKEN")
    (tmp_path / "data" / "token").unlink()
    assert resolve_token(None, here, None) is None


# Capabilities


@pytest.mark.parametrize(
    ("capability", "reference"),
    [
        ("A", {"name": "A"}),
        ("A@^1.2", {"name": "A", "version": "^1.2"}),
        (f"A@1.0.0#{PIN}", PINNED),
        (f"A#{PIN[7:]}", {"name": "A", "checksum": PIN}),
        ({**PINNED, "score": 1}, PINNED),
        ({"capability": {"name": "A"}, "steps": []}, {"name": "A"}),
    ],
)
def test_references(capability: Any, reference: Any) -> None:
    assert reference_of(capability) == reference


def test_a_document_is_bound_to_its_computed_checksum() -> None:
    document = {"name": "A", "version": "1.0", "checksum": PIN, "execution": {}}
    assert reference_of(document)["checksum"] == a2s.compute_checksum(document) != PIN


@pytest.mark.parametrize(
    "capability", ["", "A@", "A#x", "#", {"name": 1}, {"name": "A", "checksum": "x"}, {}]
)
def test_references_that_cannot_be_read(capability: Any) -> None:
    with pytest.raises(a2s.InvalidInput):
        reference_of(capability)


def test_plans_that_cannot_start(kind: str) -> None:
    script = Script([])
    with serve(script) as url, Driver(kind, url) as driver:
        plan = {"capability": {"name": "A"}, "steps": [], "missing": ["x"], "no_token_reason": "no x"}
        with pytest.raises(a2s.MissingInput, match="no x") as caught:
            driver.call("run", plan)
        assert [field["name"] for field in caught.value.missing] == ["x"]
        with pytest.raises(a2s.InvalidInput, match="no credential"):
            driver.call("run", {**plan, "missing": [], "no_token_reason": "no credential"})
        with pytest.raises(a2s.InvalidInput, match="already"):
            driver.call("run", {**plan, "token": "t"}, {"x": 1})
    assert script.received == []


def test_the_wrong_document_is_refused(kind: str) -> None:
    document: dict[str, Any] = {"a2s": "1.0.0", "name": "Other", "execution": {}}
    document["checksum"] = a2s.compute_checksum(document)
    with (
        serve(Script([reply_json(document)])) as url,
        Driver(kind, url) as driver,
        pytest.raises(a2s.Drifted, match="Other"),
    ):
        driver.call("get_capability", "Wanted")


# Runs


def test_the_methods_of_a_run(kind: str) -> None:
    waiting = {**RUN, "status": "waiting", "error": {"code": "A2S371"}, "approvals": [{"id": "p"}]}
    script = Script([reply_json(value) for value in ({**RUN, "status": "running"}, waiting, RUN, RUN)])
    with serve(script) as url, Driver(kind, url) as driver:
        run = driver.call("run", "A", wait=False)
        assert (run.id, run.status, run.error) == ("r", "running", None)
        assert driver.finish(run.approvals()) == [{"id": "p"}]
        with pytest.raises(a2s.OutcomeUnknown) as caught:
            driver.finish(run.wait())
        assert caught.value.run is run
        assert driver.finish(caught.value.resume("set", outputs={"y": 2})).status == "succeeded"
        assert driver.finish(run.refresh()).output == {"x": 1}
    assert script.received[2].json() == {"decision": "set", "outputs": {"y": 2}}


def test_a_decision_that_does_not_come(kind: str) -> None:
    waiting = {"id": "r", "status": "waiting", "error": {"code": "A2S346"}}
    with serve(Script([reply_json(waiting)] * 9)) as url, Driver(kind, url) as driver:
        with pytest.raises(a2s.NeedsApproval) as caught:
            driver.call("run", "A")
        with pytest.raises(a2s.Interrupted) as stopped:
            driver.finish(caught.value.wait(timeout=-1))
        assert stopped.value.run.id == "r"


def test_executor_and_state(kind: str) -> None:
    entries = {"entries": [{"name": "city", "value": "Rome"}]}
    script = Script(
        [reply_json({"name": "city"}), reply_json(entries), reply_json(entries), Reply(204), reply_json(RUN)]
    )
    with serve(script) as url, Driver(kind, url) as driver:
        prefix = "Async" if kind == "async" else ""
        store = getattr(a2s, prefix + "StateStore")(driver.registry, "s")
        driver.finish(store.set("city", "Rome"))
        assert driver.finish(store.get("city")) == "Rome"
        assert driver.finish(store.get("town", "none")) == "none"
        driver.finish(store.delete("city"))
        executor = getattr(a2s, prefix + "CapabilityExecutor")(driver.registry, store)
        driver.finish(executor.execute_capability_tasks("A"))
    assert script.received[0].path == "/v1/sessions/s/state/city"
    assert script.received[4].json() == {"name": "A", "session": "s"}


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        ("denied", "A2S346", a2s.Denied),
        ("failed", "A2S371", a2s.RunFailed),
        ("failed", "A2S351", a2s.NotReachable),
        ("failed", None, a2s.RunFailed),
        ("cancelled", "A2S370", a2s.RunFailed),
        ("waiting", "A2S999", a2s.OutcomeUnknown),
        ("waiting", "A2S374", a2s.OutcomeUnknown),
    ],
)
def test_the_ends_of_runs(status: str, code: str | None, expected: type[a2s.A2SError]) -> None:
    run = {"id": "r", "status": status, "error": {"code": code, "cause": "service", "next": "repeat"}}
    with (
        serve(Script([reply_json(run)])) as url,
        Driver("sync", url) as driver,
        pytest.raises(a2s.A2SError) as caught,
    ):
        driver.call("run", "A")
    assert type(caught.value) is expected
    assert (caught.value.cause, caught.value.next) == ("service", "repeat")


def test_an_approval_without_a_run() -> None:
    with serve(Script([problem(403, "A2S346")])) as url, Driver("sync", url) as driver:
        with pytest.raises(a2s.NeedsApproval) as caught:
            driver.call("resume_run", "r", "set")
        with pytest.raises(a2s.A2SError, match="no run waits"):
            caught.value.wait()
