"""A fake A2S behind an address, and registries of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import a2s
from fake_a2s import CALLER, OWNER, FakeA2S
from support import no_pause

T = TypeVar("T")


@contextmanager
def new_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop for one test."""
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@dataclass
class World:
    fake: FakeA2S
    url: str
    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs everything of a test in one event loop, to which connections belong."""
        return self.loop.run_until_complete(work)

    def synchronous(self, owner: bool = False) -> a2s.A2SRegistry:
        return a2s.A2SRegistry(self.url, OWNER if owner else CALLER, pause=no_pause)

    def asynchronous(self, owner: bool = False) -> a2s.AsyncA2SRegistry:
        return a2s.AsyncA2SRegistry(self.url, OWNER if owner else CALLER, pause=no_pause)
