"""Runs and plans: the objects of the API, with what can be done with them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, cast

from .. import _request
from .._interrupts import AsyncWork, async_complete
from .._request import OnAbort
from .._typed import Output
from ..errors import A2SError, Interrupted, NeedsApproval, error_of_run
from .transport import deadline_of

if TYPE_CHECKING:
    from .._events import ServerSentEvent
    from .._streams import AsyncStream
    from ..types import CapabilityRef, Event, RunApproval, RunError, RunStatus, StepResolution
    from .registry import AsyncA2SRegistry

_UNDER_WAY = ("queued", "running")


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

        Raises the error of a run that did not succeed, or that waits for a person, and `Interrupted` after
        the timeout. The run then goes on.
        """
        try:
            return await self._wait(deadline_of(timeout))
        except A2SError as error:
            raise self._attach(error) from error.__cause__

    async def _wait(self, deadline: float | None) -> AsyncRun[Output]:
        after = None
        while self.status in _UNDER_WAY:
            async for event in self._registry._follow_run(self.id, after, deadline):
                after = event["seq"]
            await self._read(deadline)
            if self.status in _UNDER_WAY:
                await self._registry._pause(deadline)
        return self.raise_for_status()

    async def _read(self, deadline: float | None) -> None:
        now = await self._registry._read_run(self.id, deadline)
        self.clear()
        self.update(now)

    def _attach(self, error: A2SError) -> A2SError:
        if error.run is None:
            error.run = self
        return error

    async def own(self, work: AsyncWork, on_abort: OnAbort) -> Any:
        """Does work that waits for the run. If it is aborted or its time is over, cancels the run."""
        try:
            return await work()
        except Interrupted as error:
            if on_abort == "cancel":
                await self._cancel_quietly()
            raise self._attach(error) from error.__cause__
        except A2SError as error:
            raise self._attach(error) from error.__cause__
        except Exception:
            raise
        except BaseException:
            # The task was cancelled, or the person at the keyboard has stopped the program.
            if on_abort == "cancel":
                await async_complete(self._cancel_quietly)
            raise

    async def finish(self, deadline: float | None, on_abort: OnAbort) -> AsyncRun[Output]:
        """Waits for a run that this caller has started."""

        async def work() -> AsyncRun[Output]:
            return await self._wait(deadline)

        return cast("AsyncRun[Output]", await self.own(work, on_abort))

    async def _cancel_quietly(self) -> None:
        # The run may have ended; and A2S may be away, then the error has the id of the run.
        with suppress(A2SError):
            self.update(await self._registry.cancel_run(self.id))

    def raise_for_status(self) -> AsyncRun[Output]:
        """Returns the run, or raises the error of its end."""
        if self.status != "succeeded" and self.status not in _UNDER_WAY:
            raise error_of_run(self)
        return self

    async def wait_for_decision(self, timeout: float | None = None) -> AsyncRun[Output]:
        """Waits until a person has decided about what the run waits for, and then until it has ended.

        The run goes on by itself after an approval. Raises the error of its end, `NeedsApproval` when it
        waits for a further approval, and `Interrupted` when the decision does not come in time.
        """
        deadline = deadline_of(timeout)
        known = {approval["id"] for approval in self.get("approvals") or []}
        try:
            while True:
                await self._read(deadline)
                if self.status != "waiting":
                    return await self._wait(deadline)
                error = error_of_run(self)
                now = {approval["id"] for approval in self.get("approvals") or []}
                if not isinstance(error, NeedsApproval) or not now <= known:
                    raise error
                await self._registry._pause_for_approval(deadline)
        except A2SError as error:
            raise self._attach(error) from error.__cause__

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

    async def list_asked(self) -> list[str]:
        """Returns the ids of all approvals that the run has asked for, in their order."""
        waits_for = {approval["id"] for approval in self.get("approvals") or []}
        asked: list[str] = []
        after = None
        while not waits_for <= set(asked):
            before = after
            async for event in self.events(after):
                after = event["seq"]
                if event["type"] == "approval_requested" and event["id"] not in asked:
                    asked.append(event["id"])
            if after == before:
                break
        return asked

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
        on_abort: OnAbort = "cancel",
    ) -> AsyncRun[Output]:
        """Runs exactly this plan, once. Raises `Drifted` when anything differs from it."""
        run = await self._registry.run(
            self,
            intent=intent,
            idempotency_key=idempotency_key,
            wait=wait,
            timeout=timeout,
            on_abort=on_abort,
        )
        return cast("AsyncRun[Output]", run)


def is_last(event: ServerSentEvent) -> bool:
    """Returns whether the events of a run end with this one."""
    return event.event in ("run_finished", "run_waiting")


def members_of(event: ServerSentEvent) -> Any:
    """Returns the event of a run or of the registry that a stream carries."""
    return _request.read_object(event.data.encode("utf-8"))
