"""The errors of the SDK: one base class, and a class for each thing that a program can do about one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._error_table import CLASSES

if TYPE_CHECKING:
    from ._async.run import AsyncRun
    from ._sync.run import Run
    from .types import Diagnostic, FaultAttribution, InputField, NextAction, RunApproval

__all__ = [
    "A2SError",
    "Busy",
    "ChecksumMismatch",
    "Conflict",
    "Denied",
    "Drifted",
    "Interrupted",
    "InvalidDocument",
    "InvalidInput",
    "MissingInput",
    "NeedsApproval",
    "NotFound",
    "NotReachable",
    "OutcomeUnknown",
    "RunFailed",
    "Unauthorized",
]


class A2SError(Exception):
    """The base of all errors.

    A program decides by the class, or by `code`; `message` and `hint` are for people.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        status: int | None = None,
        problem: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        run: Run | AsyncRun | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        """The occurrence, in words."""
        self.code = code
        """The stable code, such as `A2S340`; none when the server did not respond."""
        self.hint = hint
        """The next action, in words."""
        self.status = status
        """The status of the response."""
        self.problem: Mapping[str, Any] = problem or {}
        """The body of the response."""
        self.retry_after = retry_after
        """The seconds to wait before another try, as the service states them."""
        self.run: Any = run
        """The run that ended with this error, or waits: a `Run`, or an `AsyncRun`."""
        members: Mapping[str, Any] = run or {}
        error = members.get("error") or {}
        self.cause: FaultAttribution | None = error.get("cause")
        """The responsible party, for the error of a run."""
        self.next: NextAction | None = error.get("next")
        """The kind of the next action, for the error of a run."""

    def __str__(self) -> str:
        code = f"{self.code}: " if self.code else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{code}{self.message}{hint}"


class Denied(A2SError):
    """The guardian, or a person, said no."""


class NeedsApproval(A2SError):
    """A run waits for the approval of a person."""

    @property
    def approvals(self) -> list[RunApproval]:
        """The approvals that the run waits for."""
        return list((self.run or {}).get("approvals") or [])

    def wait(self, timeout: float | None = None) -> Any:
        """Waits until a person has decided about these approvals, and returns the finished run.

        With the asynchronous registry this returns an awaitable of the run. Raises `Denied` when an
        approval is rejected or expires, `NeedsApproval` when the run waits for a further one, and the
        other errors of the end of a run.
        """
        if self.run is None:
            raise A2SError("no run waits for this approval", code=self.code, hint=self.hint)
        return self.run.wait_for_decision(timeout)


class Interrupted(A2SError):
    """The caller has stopped waiting for a run: its time is over, or it has aborted the call.

    `run` is the run, which is cancelled or goes on, as `on_abort` says.
    """


class MissingInput(A2SError):
    """An input is missing."""

    @property
    def missing(self) -> list[InputField]:
        """The missing inputs, with their schemas."""
        return list(self.problem.get("missing") or [])


class InvalidInput(A2SError):
    """A value is not accepted."""


class Drifted(A2SError):
    """A run would differ from its plan, or a version has other content than before."""

    @property
    def differences(self) -> list[str]:
        """The differences, in words."""
        return list(self.problem.get("differences") or [])


class ChecksumMismatch(Drifted):
    """The client computed another checksum than the one that was stated."""

    def __init__(self, expected: str, computed: str, *, subject: str = "the document") -> None:
        super().__init__(
            f"{subject} has the checksum {computed}, not {expected}",
            hint="Do not run it. Ask the owner of the registry why it serves another document.",
        )
        self.expected = expected
        """The checksum that was stated."""
        self.computed = computed
        """The checksum of the document that was served."""

    @property
    def differences(self) -> list[str]:
        """The two checksums, in words."""
        return [f"checksum: {self.expected} became {self.computed}"]


class OutcomeUnknown(A2SError):
    """A run waits, because the effect of a request is not known."""

    def resume(self, decision: str, step: str | None = None, outputs: Mapping[str, Any] | None = None) -> Any:
        """Continues the run with a decision: `repeat`, `skip`, or `set` with outputs.

        Returns the run, which then goes on; with the asynchronous registry, an awaitable of it.
        """
        if self.run is None:
            raise A2SError("no run waits for this decision", code=self.code, hint=self.hint)
        return self.run.resume(decision, step=step, outputs=outputs)


class NotReachable(A2SError):
    """A2S, or a service, does not answer."""


class InvalidDocument(A2SError):
    """A document has errors."""

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """All errors of the document, with their places."""
        return list(self.problem.get("diagnostics") or [])


class Unauthorized(A2SError):
    """The token is missing, unknown, or lacks a scope."""


class NotFound(A2SError):
    """The object does not exist, or does not exist any more."""


class Conflict(A2SError):
    """The request does not fit the present state."""


class Busy(A2SError):
    """A limit is reached, or a part of the service is away. See `retry_after`."""


class RunFailed(A2SError):
    """A run failed, or was cancelled."""


_BY_NAME: dict[str, type[A2SError]] = {name: globals()[name] for name in __all__}
_BY_STATUS: dict[int, type[A2SError]] = {
    400: InvalidInput,
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    413: InvalidInput,
    415: InvalidInput,
    422: InvalidInput,
    429: Busy,
    502: NotReachable,
    503: Busy,
    504: NotReachable,
}


def error_of_response(status: int, body: Any, retry_after: float | None = None) -> A2SError:
    """Makes the error of a response that is not a success."""
    problem = body if isinstance(body, Mapping) else {}
    code = problem.get("code")
    kind = _BY_NAME[CLASSES[code]] if code in CLASSES else _BY_STATUS.get(status, A2SError)
    if status == 422 and problem.get("diagnostics"):
        kind = InvalidDocument
    message = problem.get("detail") or problem.get("title") or f"the response has the status {status}"
    return kind(
        message,
        code=code,
        hint=problem.get("hint"),
        status=status,
        problem=problem,
        retry_after=retry_after,
    )


def error_of_run(run: Run | AsyncRun) -> A2SError:
    """Makes the error of a run that did not succeed."""
    error = run.get("error") or {}
    code = error.get("code")
    waits = run.get("status") == "waiting"
    kind = _BY_NAME[CLASSES[code]] if code in CLASSES else RunFailed
    if run.get("status") == "denied":
        kind = Denied
    elif waits and kind not in (NeedsApproval, OutcomeUnknown):
        kind = OutcomeUnknown
    elif not waits and kind in (NeedsApproval, OutcomeUnknown):
        kind = RunFailed
    message = error.get("message") or f"the run ended with the status {run.get('status')}"
    return kind(message, code=code, hint=error.get("hint"), status=error.get("status"), run=run)
