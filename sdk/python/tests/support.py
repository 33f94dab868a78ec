"""Shared parts of the tests: servers on loopback, and one driver for both kinds of registry."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

import a2s

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "test-token"
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

Json = Any


@dataclass
class Reply:
    """The response of a server. Without a status, the server closes the connection."""

    status: int | None = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: bool = False
    stall: bool = False
    hold: Callable[[], None] | None = None
    end: threading.Event | None = None


@dataclass
class Received:
    """A request that a server got."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Json:
        return json.loads(self.body)


def reply_json(value: Json, status: int = 200, **headers: str) -> Reply:
    return Reply(status, {"Content-Type": "application/json", **headers}, json.dumps(value).encode())


def problem(status: int, code: str, **members: Json) -> Reply:
    body = {
        "type": f"/errors/{code}",
        "title": code,
        "status": status,
        "code": code,
        "detail": code,
        **members,
    }
    return Reply(status, {"Content-Type": "application/problem+json"}, json.dumps(body).encode())


def reply_events(*events: Json, cut: bool = False) -> Reply:
    lines = [f"id: {e['seq']}\nevent: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events]
    return Reply(200, {"Content-Type": "text/event-stream"}, "".join(lines).encode(), cut)


@contextmanager
def serve(answer: Callable[[Received], Reply]) -> Iterator[str]:
    """Runs a server on loopback, and gives its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One packet for each response: the client would wait for the acknowledgement of the first.
        wbufsize = 65536

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            received = Received(self.command, self.path, headers, self.rfile.read(length))
            reply = answer(received)
            if reply.status is None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.cut or reply.stall or reply.hold:
                # A chunk without an end: the client sees that something is missing.
                self.close_connection = True
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                if reply.body:
                    self.wfile.write(f"{len(reply.body):x}\r\n".encode() + reply.body + b"\r\n")
                self.wfile.flush()
                if reply.stall:
                    # Returns when the client closes the connection.
                    self.connection.recv(1)
                if reply.hold:
                    reply.hold()
                    with suppress(OSError):
                        while reply.end is None or not reply.end.is_set():
                            self.wfile.write(b"3\r\n:\n\n\r\n")
                            self.wfile.flush()
                return
            if reply.status != 204:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Script:
    """A server that gives prepared replies in order, and remembers the requests."""

    replies: list[Reply]
    received: list[Received] = field(default_factory=list)

    def __call__(self, request: Received) -> Reply:
        self.received.append(request)
        if len(self.received) > len(self.replies):
            return Reply(599, {}, b"more requests than replies")
        return self.replies[len(self.received) - 1]


def no_pause(tried: int, retry_after: float | None) -> float:
    return 0.0


class Driver:
    """Calls the synchronous or the asynchronous surface, and waits for what it returns."""

    def __init__(self, kind: str, url: str, token: str | None = TOKEN, **options: Json) -> None:
        self.is_async = kind == "async"
        self.loop = asyncio.new_event_loop()
        registry = a2s.AsyncA2SRegistry if self.is_async else a2s.A2SRegistry
        client = httpx.AsyncClient if self.is_async else httpx.Client
        # Certificates are not needed here, and reading them takes most of the time of a test.
        self._client: Any = client(verify=NO_CERTIFICATES, trust_env=False)
        options = {"pause": no_pause, "client": self._client, **options}
        self.registry: Any = registry(url, token, **options)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish(self._client.aclose() if self.is_async else self._client.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def call(self, name: str, /, *arguments: Json, **named: Json) -> Any:
        return self.finish(getattr(self.registry, name)(*arguments, **named))

    def finish(self, value: Any) -> Any:
        """Awaits an awaitable, and collects what is given one by one."""
        if inspect.isasyncgen(value):
            return self.loop.run_until_complete(_collect(value))
        if inspect.isgenerator(value):
            return list(value)
        if inspect.isawaitable(value):
            return self.loop.run_until_complete(_await(value))
        return value

    def agent(self) -> Any:
        agent = a2s.AsyncA2SAgent() if self.is_async else a2s.A2SAgent()
        return agent.use_registries([self.registry])

    def callback(self, function: Callable[[Any], Any]) -> Any:
        """Returns a callback of the right kind."""
        if not self.is_async:
            return function

        async def asynchronous(argument: Any) -> Any:
            return function(argument)

        return asynchronous


async def _collect(items: Any) -> list[Any]:
    return [item async for item in items]


async def _await(value: Any) -> Any:
    return await value


def program() -> str | None:
    """The program `a2s` for end-to-end tests, as the environment names it."""
    return os.environ.get("A2S_TEST_BIN") or None
