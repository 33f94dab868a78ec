"""Find capabilities by intent, verify them, and run them under the control of a guardian."""

from . import types
from ._agent import Answer
from ._async.agent import AsyncA2SAgent, AsyncCapabilityExecutor, AsyncStateStore
from ._async.registry import AsyncA2SRegistry
from ._async.run import AsyncPlan, AsyncRun
from ._request import Capability, Document
from ._search import SearchHits, ServiceHits
from ._sync.agent import A2SAgent, CapabilityExecutor, StateStore
from ._sync.registry import A2SRegistry
from ._sync.run import Plan, Run
from ._typed import TypedCapability, bind_types
from .checksum import canonicalize, compute_checksum
from .errors import (
    A2SError,
    Busy,
    ChecksumMismatch,
    Conflict,
    Denied,
    Drifted,
    Interrupted,
    InvalidDocument,
    InvalidInput,
    MissingInput,
    NeedsApproval,
    NotFound,
    NotReachable,
    OutcomeUnknown,
    RunFailed,
    Unauthorized,
)

__all__ = [
    "A2SAgent",
    "A2SError",
    "A2SRegistry",
    "Answer",
    "AsyncA2SAgent",
    "AsyncA2SRegistry",
    "AsyncCapabilityExecutor",
    "AsyncPlan",
    "AsyncRun",
    "AsyncStateStore",
    "Busy",
    "Capability",
    "CapabilityExecutor",
    "ChecksumMismatch",
    "Conflict",
    "Denied",
    "Document",
    "Drifted",
    "Interrupted",
    "InvalidDocument",
    "InvalidInput",
    "MissingInput",
    "NeedsApproval",
    "NotFound",
    "NotReachable",
    "OutcomeUnknown",
    "Plan",
    "Run",
    "RunFailed",
    "SearchHits",
    "ServiceHits",
    "StateStore",
    "TypedCapability",
    "Unauthorized",
    "bind_types",
    "canonicalize",
    "compute_checksum",
    "types",
]
