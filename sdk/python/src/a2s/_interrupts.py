"""Work that goes on to its end, though the caller does not wait for it any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from .errors import A2SError

T = TypeVar("T")

# The seconds for which a cancelled caller waits.
_GRACE = 1.0
# The event loop itself keeps only weak references to tasks.
_UNDOING: set[asyncio.Future[Any]] = set()

Work: TypeAlias = Callable[[], Any]
AsyncWork: TypeAlias = Callable[[], Awaitable[Any]]


async def async_complete(
    work: Callable[[], Awaitable[T]], undo: Callable[[T], Awaitable[object]] | None = None
) -> T:
    """Does the work in a task of its own. If the caller is cancelled meanwhile, undoes what it has done."""
    task = asyncio.ensure_future(work())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        undoing = asyncio.ensure_future(_undo(task, undo))
        _UNDOING.add(undoing)
        undoing.add_done_callback(_UNDOING.discard)
        # If A2S does not respond at once, the rest is done later.
        await asyncio.wait([undoing], timeout=_GRACE)
        raise


async def _undo(task: asyncio.Future[T], undo: Callable[[T], Awaitable[object]] | None) -> None:
    await asyncio.wait([task])
    if undo is not None and not task.cancelled() and task.exception() is None:
        await undo(task.result())


def complete(work: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """Does the work. No other task can cancel a synchronous caller."""
    return work()


class RunHandle:
    """The run of a call in another thread, which can be cancelled before it has begun."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run: Any = None
        self._is_cancelled = False

    def __call__(self, run: Any) -> None:
        """Takes the run when it begins."""
        with self._lock:
            self._run = run
            is_cancelled = self._is_cancelled
        if is_cancelled:
            run.cancel()

    def cancel(self) -> None:
        """Cancels the run, or has it cancelled as soon as it begins."""
        with self._lock:
            self._is_cancelled = True
            run = self._run
        if run is not None:
            with suppress(A2SError):
                run.cancel()


async def call_in_thread(call: Callable[[RunHandle], T]) -> T:
    """Makes a synchronous call in a thread. When the task is cancelled, the run of the call is, too."""
    handle = RunHandle()
    try:
        return await asyncio.to_thread(call, handle)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(handle.cancel)))
        raise
