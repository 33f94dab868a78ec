"""Capabilities as the tools of a language model: what all adapters share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .. import _tools
from .._request import reference_of
from ..errors import A2SError, Conflict, Denied, InvalidInput, NeedsApproval
from ..types import SearchFilters, SearchHit, Strategy
from .registry import AsyncA2SRegistry
from .run import AsyncRun

# The capabilities that searches have returned to the model, of which the oldest are forgotten.
_MAX_FOUND = 1000


@dataclass(frozen=True)
class AsyncTool:
    """A tool of a language model: one capability, or a tool that searches and runs them."""

    name: str
    description: str
    schema: dict[str, Any]
    """The JSON Schema of the arguments."""
    pinned: Mapping[str, Any] | None
    """The capability with its version and its verified checksum; none for the tools of a search."""
    toolbox: AsyncToolbox

    async def call(
        self, arguments: Mapping[str, Any], *, approved: bool = False, key: str | None = None
    ) -> Any:
        """Does what the tool does, and returns its result. Raises `A2SError`.

        `approved` says that a person has approved this call at the host. `key` is an idempotency key:
        the same key gives the same run.
        """
        return await self.toolbox.call(self, arguments, approved, key)

    async def report(
        self, arguments: Mapping[str, Any], *, approved: bool = False, key: str | None = None
    ) -> Any:
        """Does the same, and returns an error as a result that a model can act on."""
        try:
            return await self.call(arguments, approved=approved, key=key)
        except A2SError as error:
            return _tools.describe_error(error)

    async def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Returns whether the host must ask a person before this call."""
        return await self.toolbox.needs_approval(self, arguments)


class AsyncToolbox:
    """Makes tools from capabilities.

    - `approver`: a registry with the owner's token. With it, the approval of a person at the host is the
      approval that the guardian wants. Without it, a run waits until somebody approves it at A2S.
    - `always_ask`: have a person asked before each run; otherwise before those that the guardian names.
    - `session`: the session of all runs, whose remembered values are inputs.
    - `limit`, `strategy`, `filters`: those of each search.
    """

    def __init__(
        self,
        registry: AsyncA2SRegistry,
        *,
        approver: AsyncA2SRegistry | None = None,
        always_ask: bool = False,
        session: str | None = None,
        limit: int = 5,
        strategy: Strategy | None = None,
        filters: SearchFilters | None = None,
    ) -> None:
        self._registry = registry
        self._approver = approver
        self._always_ask = always_ask
        self._session = session
        self._limit = limit
        self._strategy = strategy
        self._filters = filters
        self._found: OrderedDict[str, tuple[str, SearchHit]] = OrderedDict()

    async def pinned(self, references: Sequence[str]) -> list[AsyncTool]:
        """Returns a typed tool for each `NAME@VERSION#CHECKSUM`, whose document is verified."""
        tools: list[AsyncTool] = []
        for reference in references:
            pin = reference_of(reference)
            if "checksum" not in pin:
                raise InvalidInput(f"{reference!r} has no checksum: write NAME@VERSION#CHECKSUM")
            document = await self._registry.verify_checksum(reference)
            tools.append(self._tool(pin, document["description"], document.get("parameters") or []))
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            raise InvalidInput("two pinned capabilities have the same name")
        return tools

    async def find(self, intent: str) -> list[AsyncTool]:
        """Returns a typed tool for each capability that fits an intent, best first."""
        tools: list[AsyncTool] = []
        for hit in await self._search(intent):
            document = await self._registry.verify_checksum(hit)
            tools.append(self._tool(reference_of(hit), document["description"], hit["parameters"]))
        return tools

    def search_tools(self) -> list[AsyncTool]:
        """Returns the three tools with which a model searches, plans and runs."""
        return [
            AsyncTool(name, _tools.DESCRIPTIONS[name], _tools.SCHEMAS[name], None, self)
            for name in (_tools.SEARCH, _tools.PLAN, _tools.RUN)
        ]

    async def call(
        self, tool: AsyncTool, arguments: Mapping[str, Any], approved: bool, key: str | None
    ) -> Any:
        """Does what a tool does."""
        if tool.name == _tools.SEARCH and tool.pinned is None:
            return _tools.describe_hits(await self._search(_text(arguments, "intent")))
        intent, capability, inputs = self._target(tool, arguments)
        if tool.name == _tools.PLAN and tool.pinned is None:
            plan = await self._registry.plan(capability, inputs, self._session)
            return _tools.describe_plan(plan)
        if tool.pinned is None:
            await self._registry.verify_checksum(capability)
        try:
            run = await self._registry.run(capability, inputs, self._session, intent, key)
        except NeedsApproval as waiting:
            if self._approver is None or not approved:
                raise
            run = await self._approve(waiting)
        return run.output

    async def needs_approval(self, tool: AsyncTool, arguments: Mapping[str, Any]) -> bool:
        """Returns whether the host must ask a person before a call."""
        if tool.pinned is None and tool.name != _tools.RUN:
            return False
        try:
            _, capability, inputs = self._target(tool, arguments)
            if self._always_ask:
                return True
            plan = await self._registry.plan(capability, inputs, self._session, preview=True)
        except A2SError:
            # The call itself reports the error to the model.
            return False
        return _tools.wants_approval(plan)

    async def decide(self, waiting: NeedsApproval, is_approved: bool) -> Any:
        """Does what a person at the host has decided about a run that waits, and returns its output.

        An approval needs an `approver`; without one, the run still waits until somebody approves it at
        A2S. A rejection without an `approver` cancels the run. Raises `Denied` for a rejection.
        """
        if is_approved:
            return (await self._approve(waiting)).output
        if self._approver is None:
            await waiting_run(waiting).cancel()
        else:
            for approval in waiting.approvals:
                await self._approver.reject(approval["id"])
        raise Denied("a person did not approve the call", code=waiting.code, run=waiting.run)

    async def _approve(self, waiting: NeedsApproval) -> AsyncRun:
        """Approves a run that waits, has the executor ask the guardian at once, and waits for the end."""
        run = waiting_run(waiting)
        if self._approver is not None:
            for approval in waiting.approvals:
                await self._approver.approve(approval["id"])
            # The run may have gone on by itself.
            with suppress(Conflict):
                await run.resume("repeat")
        return await (await run.refresh()).wait_for_decision()

    async def _search(self, intent: str) -> Any:
        hits = await self._registry.search_capabilities(
            intent, self._limit, strategy=self._strategy, filters=self._filters
        )
        for hit in hits:
            self._found[_tools.handle_of(hit)] = (intent, hit)
        while len(self._found) > _MAX_FOUND:
            self._found.popitem(last=False)
        return hits

    def _target(
        self, tool: AsyncTool, arguments: Mapping[str, Any]
    ) -> tuple[str | None, Mapping[str, Any], Mapping[str, Any]]:
        """Returns the words of the search, the capability with its checksum, and the inputs of a call."""
        if tool.pinned is not None:
            return None, tool.pinned, arguments
        handle, inputs = _text(arguments, "capability"), arguments.get("inputs") or {}
        if not isinstance(inputs, Mapping):
            raise InvalidInput("`inputs` must be an object")
        if handle not in self._found:
            hint = f"Call {_tools.SEARCH}, and use `capability` of one of its results."
            raise InvalidInput(f"no search has returned {handle!r:.100}", hint=hint)
        intent, hit = self._found[handle]
        return intent, reference_of(hit), inputs

    def _tool(self, pin: Mapping[str, Any], description: str, parameters: Sequence[Any]) -> AsyncTool:
        schema = _tools.input_schema(list(parameters))
        return AsyncTool(_tools.tool_name(pin["name"]), description, schema, pin, self)


def waiting_run(waiting: NeedsApproval) -> AsyncRun:
    """Returns the run that waits for an approval."""
    if not isinstance(waiting.run, AsyncRun):
        raise waiting
    return waiting.run


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"`{name}` must be a text")
    return value
