"""Capabilities as the tools of a language model: what all adapters share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .. import _tools
from .._request import reference_of
from .._tools import AsyncAsk, OnStart
from ..checksum import canonicalize
from ..errors import A2SError, Conflict, Denied, Drifted, InvalidInput, NeedsApproval, NotFound
from ..types import RunApproval, SearchFilters, SearchHit, Strategy
from .registry import AsyncA2SRegistry
from .run import AsyncPlan, AsyncRun

# What a toolbox remembers: hits that searches have returned to the model, plans that a person has seen,
# and runs that wait for a person. The oldest are forgotten.
_MAX_REMEMBERED = 1000


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
        self,
        arguments: Mapping[str, Any],
        *,
        approved: bool = False,
        key: str | None = None,
        ask: AsyncAsk | None = None,
        on_start: OnStart | None = None,
    ) -> Any:
        """Does what the tool does, and returns its result. Raises `A2SError`.

        `approved` says that a person has approved this call at the host: the yes holds for what the run
        waits for first. `ask` has a person asked about each further request that the guardian wants
        approved; it returns the decision. `key` names the call: the same key gives the same run.
        `on_start` gets the run when it begins. A call that is cancelled cancels its run.
        """
        return await self.toolbox.call(self, arguments, approved, key, ask, on_start)

    async def report(
        self,
        arguments: Mapping[str, Any],
        *,
        approved: bool = False,
        key: str | None = None,
        ask: AsyncAsk | None = None,
        on_start: OnStart | None = None,
    ) -> Any:
        """Does the same, and returns an error as a result that a model can act on."""
        try:
            return await self.call(arguments, approved=approved, key=key, ask=ask, on_start=on_start)
        except A2SError as error:
            return _tools.describe_error(error)

    async def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Returns whether the host must ask a person before this call."""
        return await self.toolbox.needs_approval(self, arguments)


class AsyncToolbox:
    """Makes tools from capabilities.

    - `approver`: a registry with the owner's token. With it, the approval of a person at the host is the
      approval that the guardian wants. Without it, a run waits until somebody approves it at A2S.
    - `on_approval`: has a person asked about a request that the guardian wants approved, where the host
      cannot ask within a call: a function of the error and of the approval, which returns the decision.
    - `always_ask`: have a person asked before each run; otherwise before those that the guardian names.
    - `session`: the session of all runs, whose remembered values are inputs.
    - `limit`, `strategy`, `filters`: those of each search.
    """

    def __init__(
        self,
        registry: AsyncA2SRegistry,
        *,
        approver: AsyncA2SRegistry | None = None,
        on_approval: AsyncAsk | None = None,
        always_ask: bool = False,
        session: str | None = None,
        limit: int = 5,
        strategy: Strategy | None = None,
        filters: SearchFilters | None = None,
    ) -> None:
        self._registry = registry
        self._approver = approver
        self._on_approval = on_approval
        self._always_ask = always_ask
        self._session = session
        self._limit = limit
        self._strategy = strategy
        self._filters = filters
        self._found: OrderedDict[str, tuple[str, SearchHit]] = OrderedDict()
        self._shown: OrderedDict[str, AsyncPlan] = OrderedDict()
        # The runs of calls, by their keys, and those that were reported to the model, by their content.
        self._begun: OrderedDict[str, str] = OrderedDict()
        self._waiting: OrderedDict[str, str] = OrderedDict()

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
        self,
        tool: AsyncTool,
        arguments: Mapping[str, Any],
        approved: bool,
        key: str | None,
        ask: AsyncAsk | None,
        on_start: OnStart | None,
    ) -> Any:
        """Does what a tool does."""
        if tool.name == _tools.SEARCH and tool.pinned is None:
            return _tools.describe_hits(await self._search(_text(arguments, "intent")))
        intent, capability, inputs = self._target(tool, arguments)
        if tool.name == _tools.PLAN and tool.pinned is None:
            plan = await self._registry.plan(reference_of(capability), inputs, self._session)
            return _tools.describe_plan(plan)
        if tool.pinned is None:
            await self._registry.verify_checksum(capability)
        call = self._name_call(capability, inputs)
        run = await self._begin(call, capability, inputs, intent, key)
        if on_start:
            on_start(run)

        async def work() -> AsyncRun:
            return await self._settle(call, run, approved, ask or self._on_approval)

        return (await run.own(work, "cancel")).output

    async def needs_approval(self, tool: AsyncTool, arguments: Mapping[str, Any]) -> bool:
        """Returns whether the host must ask a person before a call."""
        if tool.pinned is None and tool.name != _tools.RUN:
            return False
        try:
            _, capability, inputs = self._target(tool, arguments)
            call = self._name_call(capability, inputs)
            if call in self._waiting:
                return True
            plan = await self._registry.plan(reference_of(capability), inputs, self._session, preview=True)
        except A2SError:
            # The call itself reports the error to the model.
            return self._always_ask
        _remember(self._shown, call, plan)
        return self._always_ask or _tools.wants_approval(plan)

    def _name_call(self, capability: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
        """Returns the name of a call in what the toolbox remembers."""
        return canonicalize([reference_of(capability), dict(inputs)]).decode("utf-8")

    async def _begin(
        self,
        call: str,
        capability: Mapping[str, Any],
        inputs: Mapping[str, Any],
        intent: str | None,
        key: str | None,
    ) -> AsyncRun:
        """Returns the run of this call, or the one that an equal call has left waiting; else starts one."""
        known = self._begun.get(key or "") or self._waiting.get(call)
        if known is not None:
            return await self._registry.get_run(known)
        shown = self._shown.pop(call, None)
        if shown is None or not shown.get("token"):
            reference = reference_of(capability)
            run = await self._registry.run(reference, inputs, self._session, intent, key, wait=False)
        else:
            run = await self._run_shown(shown, inputs, intent, key)
        if key is not None:
            _remember(self._begun, key, run.id)
        return run

    async def _run_shown(
        self, shown: AsyncPlan, inputs: Mapping[str, Any], intent: str | None, key: str | None
    ) -> AsyncRun:
        """Runs the plan that a person has seen."""
        try:
            return await shown.run(intent, key, wait=False)
        except NotFound:
            # Its token has expired: plans that show the same are the same.
            plan = await self._registry.plan(shown["capability"], inputs, self._session, preview=True)
            if any(plan.get(name) != shown.get(name) for name in ("capability", "steps")):
                raise Drifted("the run would differ from the plan that was shown") from None
            return await plan.run(intent, key, wait=False)

    async def _settle(self, call: str, run: AsyncRun, approved: bool, ask: AsyncAsk | None) -> AsyncRun:
        """Waits for the end of a run, and has a person asked about each approval that it waits for."""
        # Another run has used up these approvals, so that the yes for this run still holds.
        unused: set[bytes] = set()
        wait = run.wait
        while True:
            try:
                done = await wait()
                self._waiting.pop(call, None)
                return done
            except NeedsApproval as waiting:
                for approval in waiting.approvals:
                    subject = _subject_of(approval)
                    if not approved and subject not in unused:
                        if ask is None:
                            _remember(self._waiting, call, run.id)
                            raise
                        if not await ask(waiting, approval):
                            await self._reject(waiting)
                    elif self._approver is None:
                        _remember(self._waiting, call, run.id)
                        raise
                    if not await self._approve(approval):
                        unused.add(subject)
                    else:
                        unused.discard(subject)
                approved = False
                with suppress(Conflict):
                    # The executor asks the guardian at once, unless the run has gone on by itself.
                    if self._approver is not None:
                        await run.resume("repeat")
                wait = run.wait_for_decision
            except A2SError:
                self._waiting.pop(call, None)
                raise

    async def _approve(self, approval: RunApproval) -> bool:
        """Approves a request at A2S. Returns false when it was decided already."""
        if self._approver is None:
            return True
        try:
            await self._approver.approve(approval["id"])
        except (NotFound, Conflict):
            return False
        return True

    async def _reject(self, waiting: NeedsApproval) -> None:
        """Does what a person at the host has decided, and raises `Denied`."""
        if self._approver is None:
            await waiting_run(waiting).cancel()
        else:
            for approval in waiting.approvals:
                with suppress(NotFound, Conflict):
                    await self._approver.reject(approval["id"])
        raise Denied("a person did not approve the call", code=waiting.code, run=waiting.run)

    async def _search(self, intent: str) -> Any:
        hits = await self._registry.search_capabilities(
            intent, self._limit, strategy=self._strategy, filters=self._filters
        )
        for hit in hits:
            _remember(self._found, _tools.handle_of(hit), (intent, hit))
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
        return intent, hit, inputs

    def _tool(self, pin: Mapping[str, Any], description: str, parameters: Sequence[Any]) -> AsyncTool:
        schema = _tools.input_schema(list(parameters))
        return AsyncTool(_tools.tool_name(pin["name"]), description, schema, pin, self)


def waiting_run(waiting: NeedsApproval) -> AsyncRun:
    """Returns the run that waits for an approval."""
    if not isinstance(waiting.run, AsyncRun):
        raise waiting
    return waiting.run


def _subject_of(approval: RunApproval) -> bytes:
    """Returns the subject of an approval: equal for two approvals of one request of a run."""
    own = ("id", "guardian", "expires_at")
    return canonicalize({name: value for name, value in approval.items() if name not in own})


def _remember(memory: OrderedDict[str, Any], name: str, value: Any) -> None:
    memory.pop(name, None)
    memory[name] = value
    while len(memory) > _MAX_REMEMBERED:
        memory.popitem(last=False)


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"`{name}` must be a text")
    return value
