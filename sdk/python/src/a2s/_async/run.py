"""Runs and plans: the objects of the API, with what can be done with them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, cast

from .. import _request
from .._typed import Output
from ..errors import NotReachable, error_of_run

if TYPE_CHECKING:
    from .._events import ServerSentEvent
    from .._streams import AsyncStream
    from ..types import CapabilityRef, Event, RunApproval, RunError, RunStatus, StepResolution
    from .registry import AsyncA2SRegistry

_AT_REST = ("succeeded", "failed", "denied", "cancelled", "waiting")


class AsyncRun(dict[str, Any], Generic[Output]):
    """A run, as the API returns it, with methods.

    Its members are those of `types.Run`: `run["output"]` or `run.output`.
    """

    def __init__(self, registry: AsyncA2SRegistry, members: Mapping[str, Any]) -> None:
        super().__init__(members)
        self._registry = registry

    @property
    def id(self) -> str:
        """The id."""
        return cast("str", self["id"])

    @property
    def status(self) -> RunStatus:
        """The state."""
        return cast("RunStatus", self["status"])

    @property
    def output(self) -> Output:
        """The result of a run that succeeded. Before that it is `None`."""
        return cast("Output", self.get("output"))

    @property
    def error(self) -> RunError | None:
        """The error of a run that did not succeed."""
        return self.get("error")

    @property
    def capability(self) -> CapabilityRef:
        """The capability that ran, with the checksum that the executor computed."""
        return {name: self[name] for name in ("name", "version", "checksum")}  # type: ignore[return-value]

    async def refresh(self) -> AsyncRun[Output]:
        """Reads the run again, and returns it."""
        now = await self._registry.get_run(self.id)
        self.clear()
        self.update(now)
        return self

    async def wait(self, timeout: float | None = None) -> AsyncRun[Output]:
        """Waits until the run has ended, and returns it.

        Raises the error of a run that did not succeed, or that waits for a person.
        """
        after = None
        while self.status not in _AT_REST:
            async for event in self.events(after, timeout):
                after = event["seq"]
            await self.refresh()
        return self.raise_for_status()

    def raise_for_status(self) -> AsyncRun[Output]:
        """Returns the run, or raises the error of its end."""
        if self.status != "succeeded" and self.status in _AT_REST:
            raise error_of_run(self)
        return self

    async def wait_for_decision(self, timeout: float | None = None) -> AsyncRun[Output]:
        """Waits until a run that waits for a person goes on, and then until it has ended.

        The run goes on by itself after an approval. Raises the error of its end, and `NotReachable`
        when the decision does not come in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        asked = 0
        while self.status == "waiting":
            asked += 1
            if deadline is not None and time.monotonic() > deadline:
                raise NotReachable("no person has decided about the run in time", run=self)
            await self._registry.sleep(asked)
            await self.refresh()
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return await self.wait(left)

    def events(self, after: int | None = None, timeout: float | None = None) -> AsyncStream[Event]:
        """Gives the events of the run until it has ended or waits. Resumes after a lost connection."""
        return self._registry.events(self.id, after, timeout)

    async def cancel(self) -> AsyncRun[Output]:
        """Cancels the run, and returns it as it is now."""
        return await self._registry.cancel_run(self.id)

    async def resume(
        self,
        decision: StepResolution | str,
        step: str | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> AsyncRun[Output]:
        """Continues a run that waits: `repeat`, `skip`, or `set` with outputs."""
        return await self._registry.resume_run(self.id, decision, step, outputs)

    async def approvals(self) -> list[RunApproval]:
        """Reads the run again, and returns the approvals that it waits for."""
        return list((await self.refresh()).get("approvals") or [])


class AsyncPlan(dict[str, Any], Generic[Output]):
    """A plan, as the API returns it, with a method that runs it.

    Its members are those of `types.PlanResponse`: `plan["steps"]`.
    """

    def __init__(self, registry: AsyncA2SRegistry, members: Mapping[str, Any]) -> None:
        super().__init__(members)
        self._registry = registry

    async def run(
        self,
        intent: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
    ) -> AsyncRun[Output]:
        """Runs exactly this plan, once. Raises `Drifted` when anything differs from it."""
        run = await self._registry.run(
            self, intent=intent, idempotency_key=idempotency_key, wait=wait, timeout=timeout
        )
        return cast("AsyncRun[Output]", run)


def may_be_last(event: ServerSentEvent) -> bool:
    """Returns whether the events of a run may end with this one."""
    return event.event in ("run_finished", "run_waiting")


def members_of(event: ServerSentEvent) -> Any:
    """Returns the event of a run or of the registry that a stream carries."""
    return _request.read_object(event.data.encode("utf-8"))
