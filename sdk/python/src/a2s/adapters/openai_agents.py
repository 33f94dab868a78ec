"""Capabilities as tools of the OpenAI Agents SDK, with the extra `openai-agents`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agents import FunctionTool, RunContextWrapper
from agents.tool_context import ToolContext

from .. import _tools
from .._async.toolbox import AsyncTool, AsyncToolbox
from ..errors import A2SError

__all__ = ["A2STools"]


class A2STools:
    """Makes function tools for an `Agent`. Takes the arguments of `AsyncToolbox`.

    A call that the guardian wants approved interrupts the agent before it runs: approve or reject it with
    the state of the result. See `approver`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._toolbox = AsyncToolbox(*arguments, **options)

    async def tools(self, pinned: Sequence[str]) -> list[FunctionTool]:
        """Returns a typed tool for each `NAME@VERSION#CHECKSUM`."""
        return [_convert(tool) for tool in await self._toolbox.pinned(pinned)]

    def toolset(self) -> list[FunctionTool]:
        """Returns three tools, with which the model searches, plans and runs."""
        return [_convert(tool) for tool in self._toolbox.search_tools()]

    async def find(self, intent: str) -> list[FunctionTool]:
        """Returns typed tools for what a person asks for: the search engine without a model."""
        return [_convert(tool) for tool in await self._toolbox.find(intent)]


def _convert(tool: AsyncTool) -> FunctionTool:
    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        try:
            read = _tools.read_arguments(arguments)
        except A2SError as error:
            return _tools.as_text(_tools.describe_error(error))
        approved = bool(context.is_tool_approved(tool.name, context.tool_call_id))
        return _tools.as_text(await tool.report(read, approved=approved, key=_key_of(context, read)))

    async def needs_approval(_: RunContextWrapper[Any], arguments: dict[str, Any], call: str) -> bool:
        return await tool.needs_approval(arguments)

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.schema,
        on_invoke_tool=invoke,
        # Inputs may be optional, which the strict mode does not know.
        strict_json_schema=False,
        needs_approval=needs_approval,
    )


def _key_of(context: ToolContext[Any], arguments: dict[str, Any]) -> str:
    """Returns a key for a call: the same call of the same turn, repeated by a host, is one run."""
    group = context.run_config.group_id if context.run_config else None
    turn = group or json.dumps(context.turn_input, default=str)
    return _tools.key_of(turn, context.tool_call_id, context.tool_name, arguments)
