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
from .._request import Request
from .._settings import is_loopback, resolve_token, resolve_url
from .._streams import AsyncStream
from ..errors import A2SError, InvalidInput, NotReachable, error_of_response


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
        on_behalf_of: str | None,
        timeout: float,
        pause: _request.Pause,
        client: httpx.AsyncClient | None,
    ) -> None:
        self.url = resolve_url(url)
        token = resolve_token(token, self.url)
        self._headers = {"Accept": "application/json", "User-Agent": "a2s-python"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        if on_behalf_of:
            self._headers["A2S-On-Behalf-Of"] = on_behalf_of
        self._timeout = timeout
        self._pause = pause
        self._owns_client = client is None
        # The proxies of the environment are for other machines: this one's token does not pass them.
        self._client = client or httpx.AsyncClient(trust_env=not is_loopback(self.url))

    async def aclose(self) -> None:
        """Closes the connections, unless the caller gave the client."""
        if self._owns_client:
            await self._client.aclose()

    async def call(self, request: Request, timeout: float | None = None) -> dict[str, Any]:
        """Sends a request, and returns the object of its response."""
        return _request.read_object(await self.send(request, timeout))

    async def read_items(self, request: Request, items: str) -> list[Any]:
        """Sends a request, and returns a list of its response."""
        return _request.read_list(await self.call(request), items)

    async def send(self, request: Request, timeout: float | None = None) -> bytes:
        """Sends a request, and returns the body of its successful response."""
        tried = 0
        while True:
            tried += 1
            retry_after = None
            try:
                return await self._send_once(request, timeout)
            except A2SError as error:
                if not _request.may_repeat(error, tried):
                    raise
                retry_after = error.retry_after
            except _LostConnection as lost:
                if tried == _request.TRIES or not request.repeatable:
                    raise self._not_reachable(str(lost)) from lost.__cause__
            await self.sleep(tried, retry_after)

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
        timeout: float | None = None,
    ) -> AsyncStream[ServerSentEvent]:
        """Gives the events of a stream, which it resumes when the connection is lost.

        The stream ends when it says so (with the status 204), or after an event that may be the last.
        """
        last = None if after is None else str(after)
        tried = 0
        while True:
            tried += 1
            retry_after = None
            lost: BaseException | None = None
            try:
                ended = False
                async with aclosing(self.stream(request, last, timeout)) as events:
                    async for event in events:
                        if event.id != last:
                            tried, last = 0, event.id
                        ended = is_last(event)
                        yield event
                if ended:
                    return
            except _NoMoreEvents:
                return
            except A2SError as error:
                if not _request.may_repeat(error, tried):
                    raise
                retry_after = error.retry_after
            except _LostConnection as error:
                lost = error.__cause__
            if tried == _request.TRIES:
                raise self._not_reachable("the stream of events broke off") from lost
            await self.sleep(max(tried, 1), retry_after)

    async def stream(
        self, request: Request, last: str | None = None, timeout: float | None = None
    ) -> AsyncStream[ServerSentEvent]:
        """Gives the events of one connection."""
        headers = {"Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = last
        reader = EventReader()
        async with self._open(request, timeout, headers) as (response, deadline):
            if response.status_code == 204:
                raise _NoMoreEvents
            async for chunk in response.aiter_bytes():
                self._check_time(deadline)
                for event in reader.feed(chunk):
                    yield event

    async def turn(self, request: Request, timeout: float | None = None) -> AsyncStream[ServerSentEvent]:
        """Gives the events of a request that acts, so that it is tried again only when refused."""
        tried = 0
        while True:
            tried += 1
            try:
                async with aclosing(self.stream(request, None, timeout)) as events:
                    async for event in events:
                        yield event
                return
            except A2SError as error:
                if not _request.may_repeat(error, tried):
                    raise
                retry_after = error.retry_after
            except _LostConnection as lost:
                raise self._not_reachable(str(lost)) from lost.__cause__
            await self.sleep(tried, retry_after)

    async def sleep(self, tried: int, retry_after: float | None = None) -> None:
        """Waits before the next try."""
        await asyncio.sleep(self._pause(tried, retry_after))

    async def _send_once(self, request: Request, timeout: float | None) -> bytes:
        async with self._open(request, timeout, {}) as (response, deadline):
            return await self._read(response, deadline)

    @asynccontextmanager
    async def _open(
        self, request: Request, timeout: float | None, headers: Mapping[str, str]
    ) -> AsyncStream[tuple[httpx.Response, float | None]]:
        """Sends a request, and gives the successful response before its body, and its deadline."""
        limit = timeout if request.waits else self._timeout
        deadline = None if limit is None else time.monotonic() + limit
        try:
            prepared = self._client.build_request(
                request.method,
                f"{self.url}{request.target}",
                headers={**self._headers, **request.headers, **headers},
                content=request.content,
                timeout=httpx.Timeout(limit, connect=self._timeout),
            )
            response = await self._client.send(prepared, stream=True, follow_redirects=False)
            try:
                if not response.is_success:
                    raise error_of_response(
                        response.status_code,
                        _request.read_problem(await self._read(response, deadline)),
                        _request.read_retry_after(response.headers.get("Retry-After")),
                    )
                yield response, deadline
            finally:
                await response.aclose()
        except httpx.TimeoutException as error:
            raise self._not_reachable("there was no response in time") from error
        except (httpx.LocalProtocolError, UnicodeEncodeError) as error:
            raise InvalidInput(f"the request cannot be sent: {error}") from error
        except httpx.TransportError as error:
            raise _LostConnection(str(error) or type(error).__name__) from error
        except httpx.DecodingError as error:
            raise A2SError(f"the response cannot be decoded: {error}") from error

    async def _read(self, response: httpx.Response, deadline: float | None) -> bytes:
        """Reads a body within the limits."""
        content = bytearray()
        async for chunk in response.aiter_bytes():
            self._check_time(deadline)
            content += chunk
            if len(content) > _request.MAX_BODY:
                raise A2SError("the response is longer than 64 MiB")
        return bytes(content)

    def _check_time(self, deadline: float | None) -> None:
        if deadline is not None and time.monotonic() > deadline:
            raise self._not_reachable("the response did not end in time")

    def _not_reachable(self, message: str) -> NotReachable:
        return NotReachable(
            f"{self.url}: {message}", hint="Check the address, and that A2S runs: `a2s ready`."
        )
