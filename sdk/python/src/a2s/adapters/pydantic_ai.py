"""Capabilities as a toolset of Pydantic AI, with the extra `pydantic-ai`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai import ApprovalRequired, ModelRetry, RunContext, ToolDefinition
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from .. import _tools
from .._async.registry import AsyncA2SRegistry
from .._async.toolbox import AsyncTool, AsyncToolbox
from ..errors import A2SError, InvalidInput, MissingInput, NeedsApproval
from ..types import RunApproval

__all__ = ["A2SToolset"]

_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))


class A2SToolset(AbstractToolset[Any]):
    """A toolset for an `Agent`. Takes the options of `AsyncToolbox`.

    - `pinned`: a typed tool for each `NAME@VERSION#CHECKSUM`.
    - `search`: three tools, with which the model searches, plans and runs.
    - `defer_loading`: hide the pinned tools until a tool search finds them:
      `ToolSearch(strategy=toolset.tool_search)` searches with A2S.

    A call that the guardian wants approved ends the run of the agent with `DeferredToolRequests`. See
    `approver`. What the guardian denies is a `ToolFailed`; a wrong input is a `ModelRetry`.
    """

    def __init__(
        self,
        registry: AsyncA2SRegistry,
        pinned: Sequence[str] = (),
        *,
        search: bool = False,
        defer_loading: bool = False,
        id: str = "a2s",
        max_retries: int = 1,
        **options: Any,
    ) -> None:
        self._toolbox = AsyncToolbox(registry, **options)
        self._registry = registry
        self._pinned = pinned
        self._tools = {tool.name: tool for tool in self._toolbox.search_tools()} if search else {}
        self._is_loaded = False
        self._defer_loading = defer_loading
        self._id = id
        self._max_retries = max_retries

    @property
    def id(self) -> str:
        """The id of the toolset."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Returns the tools. The first call verifies the pinned capabilities."""
        if not self._is_loaded:
            self._tools.update({tool.name: tool for tool in await self._toolbox.pinned(self._pinned)})
            self._is_loaded = True
        return {name: self._convert(tool) for name, tool in self._tools.items()}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Runs a tool, or defers it until a person has approved it."""
        called = self._tools[name]
        if not ctx.tool_call_approved and await called.needs_approval(tool_args):
            raise ApprovalRequired(metadata={"capability": dict(called.pinned or {}), "inputs": tool_args})
        key = _tools.key_of(ctx.conversation_id or ctx.run_id, ctx.tool_call_id, name, tool_args)
        try:
            return await called.call(tool_args, approved=ctx.tool_call_approved, key=key, ask=_ask_again)
        except (InvalidInput, MissingInput) as error:
            raise ModelRetry(_tools.as_text(_tools.describe_error(error))) from error
        except A2SError as error:
            raise ToolFailed(_tools.as_text(_tools.describe_error(error))) from error

    async def tool_search(
        self, ctx: RunContext[Any], queries: Sequence[str], tools: Sequence[ToolDefinition]
    ) -> list[str]:
        """Finds deferred tools with the search engine of A2S: a strategy of `ToolSearch`."""
        known = {tool.name for tool in tools}
        found: list[str] = []
        for hits in await self._registry.search_capabilities(list(queries), limit=10):
            names = (_tools.tool_name(hit["name"]) for hit in hits)
            found += [name for name in names if name in known and name not in found]
        return found

    def _convert(self, tool: AsyncTool) -> ToolsetTool[Any]:
        definition = ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.schema,
            defer_loading=self._defer_loading and tool.pinned is not None,
        )
        return ToolsetTool(
            toolset=self, tool_def=definition, max_retries=self._max_retries, args_validator=_ARGUMENTS
        )


async def _ask_again(waiting: NeedsApproval, approval: RunApproval) -> bool:
    """Defers the call again: the next approved call has the same key, and goes on with the same run."""
    raise ApprovalRequired(metadata=_tools.describe_error(waiting))
