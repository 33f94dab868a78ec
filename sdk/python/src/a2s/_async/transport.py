"""The one place where requests leave."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx

from .. import _request
from .._events import EventReader, ServerSentEvent
from .._request import Policy, Request, Retries
from .._settings import is_loopback, resolve_token, resolve_url
from .._streams import AsyncStream
from ..errors import A2SError, Interrupted, InvalidInput, NotReachable, error_of_response


class _LostConnection(Exception):
    """The connection ended before the response did."""


class _NoMoreEvents(Exception):
    """The stream has no further event."""


class AsyncTransport:
    """Sends requests, with limits on time and size, and tries again where that is safe."""

    def __init__(
        self,
        url: str | None,
        token: str | None,
        allow_insecure_tokens: bool | None,
        on_behalf_of: str | None,
        timeout: float,
        policy: Policy,
        client: httpx.AsyncClient | None,
    ) -> None:
        self.url = resolve_url(url)
        token = resolve_token(token, self.url, allow_insecure_tokens)
        self._headers = {"Accept": "application/json", "User-Agent": "a2s-python"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        if on_behalf_of:
            self._headers["A2S-On-Behalf-Of"] = on_behalf_of
        self._timeout = timeout
        self._policy = policy
        self._owns_client = client is None
        # The proxies of the environment are for other machines: this one's token does not pass them.
        self._client = client or httpx.AsyncClient(trust_env=not is_loopback(self.url))

    async def aclose(self) -> None:
        """Closes the connections, unless the caller gave the client."""
        if self._owns_client:
            await self._client.aclose()

    async def call(self, request: Request) -> dict[str, Any]:
        """Sends a request, and returns the object of its response."""
        return _request.read_object(await self.send(request))

    async def read_items(self, request: Request, items: str) -> list[Any]:
        """Sends a request, and returns a list of its response."""
        return _request.read_list(await self.call(request), items)

    async def send(self, request: Request, deadline: float | None = None, is_patient: bool = False) -> bytes:
        """Sends a request, and returns the body of its successful response.

        A patient request is sent again for as long as a restart of A2S takes, until the deadline.
        """
        retries = Retries(self._policy, request.repeatable, is_patient)
        while True:
            try:
                return await self._send_once(request)
            except A2SError as error:
                pause = retries.next_pause(error)
                if pause is None:
                    raise
            except _LostConnection as lost:
                pause = retries.next_pause()
                if pause is None:
                    raise self._not_reachable(str(lost)) from lost.__cause__
            await self.sleep(pause, deadline)

    async def pages(
        self, request: Request, items: str, cursor: str, query: Mapping[str, Any]
    ) -> AsyncStream[Any]:
        """Gives the items of all pages: `next` of a page is the parameter `cursor` of the following one."""
        query = dict(query)
        while True:
            page = await self.call(_request.with_query(request, query))
            for item in _request.read_list(page, items):
                yield item
            following = page.get("next")
            if following is None or page.get("has_more") is False:
                return
            if following == query.get(cursor):
                raise A2SError("a page names itself as the following page")
            query[cursor] = following

    async def events(
        self,
        request: Request,
        after: int | None,
        is_last: Callable[[ServerSentEvent], bool],
        deadline: float | None = None,
        is_patient: bool = False,
    ) -> AsyncStream[ServerSentEvent]:
        """Gives the numbered events of a stream, which it resumes when the connection is lost.

        The stream ends when it says so (with the status 204, or in order), or after the last event.
        """
        last = after or 0
        retries = Retries(self._policy, request.repeatable, is_patient)
        while True:
            lost: BaseException | None = None
            try:
                async with aclosing(self.stream(request, last, deadline)) as events:
                    async for event in events:
                        if event.number <= last:
                            continue
                        last = event.number
                        retries.note_progress()
                        yield event
                        if is_last(event):
                            return
            except _NoMoreEvents:
                return
            except A2SError as error:
                pause = retries.next_pause(error)
                if pause is None:
                    raise
            except _LostConnection as error:
                lost = error.__cause__
                pause = retries.next_pause()
            else:
                pause = retries.next_pause()
            if pause is None:
                raise self._not_reachable("the stream of events broke off") from lost
            await self.sleep(pause, deadline)

    async def stream(
        self, request: Request, last: int = 0, deadline: float | None = None
    ) -> AsyncStream[ServerSentEvent]:
        """Gives the events of one connection."""
        headers = {"Accept": "text/event-stream"}
        if last > 0:
            headers["Last-Event-ID"] = str(last)
        reader = EventReader()
        async with self._open(request, deadline, headers) as response:
            if response.status_code == 204:
                raise _NoMoreEvents
            if not response.headers.get("Content-Type", "text/event-stream").startswith("text/event-stream"):
                raise A2SError("the response is not a stream of events", status=response.status_code)
            async for chunk in response.aiter_bytes():
                check_time(deadline)
                for event in reader.feed(chunk):
                    yield event

    async def turn(self, request: Request, timeout: float | None = None) -> AsyncStream[ServerSentEvent]:
        """Gives the events of a request that acts, so that it is tried again only when refused."""
        deadline = deadline_of(timeout)
        retries = Retries(self._policy, request.repeatable)
        while True:
            try:
                async with aclosing(self.stream(request, 0, deadline)) as events:
                    async for event in events:
                        yield event
                return
            except A2SError as error:
                pause = retries.next_pause(error)
                if pause is None:
                    raise
            except _LostConnection as lost:
                raise self._not_reachable(str(lost)) from lost.__cause__
            await self.sleep(pause, deadline)

    async def sleep(self, pause: float, deadline: float | None = None) -> None:
        """Waits before the next try, but not beyond the deadline."""
        check_time(deadline)
        await asyncio.sleep(pause if deadline is None else max(0.0, min(pause, deadline - now())))
        check_time(deadline)

    async def sleep_for_approval(self, deadline: float | None) -> None:
        """Waits before another read of a run that waits for a person."""
        pause = self._policy.pause(1, self._policy.approval_pause)
        await self.sleep(pause, deadline)

    async def _send_once(self, request: Request) -> bytes:
        deadline = now() + self._timeout
        async with self._open(request, None, {}) as response:
            return await self._read(response, deadline)

    @asynccontextmanager
    async def _open(
        self, request: Request, deadline: float | None, headers: Mapping[str, str]
    ) -> AsyncStream[httpx.Response]:
        """Sends a request, and gives the successful response before its body.

        A stream may be silent for a while, but not beyond the deadline of the caller.
        """
        limit = self._policy.idle_timeout if request.streams else self._timeout
        if deadline is not None:
            check_time(deadline)
            limit = min(limit, deadline - now())
        try:
            prepared = self._client.build_request(
                request.method,
                f"{self.url}{request.target}",
                headers={**self._headers, **request.headers, **headers},
                content=request.content,
                timeout=httpx.Timeout(limit, connect=min(limit, self._timeout)),
            )
            response = await self._client.send(prepared, stream=True, follow_redirects=False)
            try:
                if not response.is_success:
                    raise error_of_response(
                        response.status_code,
                        _request.read_problem(await self._read(response, now() + self._timeout)),
                        _request.read_retry_after(
                            response.headers.get("Retry-After"), response.headers.get("Date")
                        ),
                    )
                yield response
            finally:
                await response.aclose()
        except httpx.TimeoutException as error:
            check_time(deadline)
            if request.streams:
                raise _LostConnection("nothing came for a long time") from error
            raise self._not_reachable("there was no response in time") from error
        except (httpx.LocalProtocolError, UnicodeEncodeError) as error:
            raise InvalidInput(f"the request cannot be sent: {error}") from error
        except httpx.TransportError as error:
            raise _LostConnection(str(error) or type(error).__name__) from error
        except httpx.DecodingError as error:
            raise A2SError(f"the response cannot be decoded: {error}") from error

    async def _read(self, response: httpx.Response, deadline: float) -> bytes:
        """Reads a body within the limits."""
        content = bytearray()
        async for chunk in response.aiter_bytes():
            if now() > deadline:
                raise self._not_reachable("the response did not end in time")
            content += chunk
            if len(content) > _request.MAX_BODY:
                raise A2SError("the response is longer than 64 MiB")
        return bytes(content)

    def _not_reachable(self, message: str) -> NotReachable:
        return NotReachable(
            f"{self.url}: {message}", hint="Check the address, and that A2S runs: `a2s ready`."
        )


def now() -> float:
    """Returns the time of the clock of deadlines."""
    return time.monotonic()


def deadline_of(timeout: float | None) -> float | None:
    """Returns the time at which a caller does not want to wait any more."""
    return None if timeout is None else now() + timeout


def check_time(deadline: float | None) -> None:
    """Raises `Interrupted` after the deadline of the caller."""
    if deadline is not None and now() >= deadline:
        raise Interrupted("the time of the caller is over", hint="Read the run later by its id.")
