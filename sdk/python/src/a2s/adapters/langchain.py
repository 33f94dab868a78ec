"""Capabilities as tools of LangChain and LangGraph, with the extra `langchain`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse, ToolCallRequest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command, interrupt

from .. import _tools
from .._interrupts import call_in_thread
from .._sync.toolbox import Tool, Toolbox
from .._tools import OnStart
from ..errors import NeedsApproval
from ..types import RunApproval

__all__ = ["A2SToolSearch", "A2STools"]


class A2STools:
    """Makes tools for `create_agent` and `ToolNode`. Takes the arguments of `Toolbox`.

    A run that the guardian wants approved interrupts the graph; `Command(resume={"type": "approve"})` or
    `{"type": "reject"}` goes on with the same run. This needs a checkpointer. See `approver`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._toolbox = Toolbox(*arguments, **options)

    def tools(self, pinned: Sequence[str]) -> list[BaseTool]:
        """Returns a typed tool for each `NAME@VERSION#CHECKSUM`."""
        return [_convert(tool) for tool in self._toolbox.pinned(pinned)]

    def toolset(self) -> list[BaseTool]:
        """Returns three tools, with which the model searches, plans and runs."""
        return [_convert(tool) for tool in self._toolbox.search_tools()]

    def find(self, intent: str) -> list[BaseTool]:
        """Returns typed tools for what a person asks for."""
        return [_convert(tool) for tool in self._toolbox.find(intent)]

    def tool_search(self) -> A2SToolSearch:
        """Returns a middleware that gives the model the tools that fit the last message of the person."""
        return A2SToolSearch(self)


class A2SToolSearch(AgentMiddleware[Any, Any, Any]):
    """Adds the tools that fit the last message of the person, without a call of a model."""

    def __init__(self, tools: A2STools) -> None:
        super().__init__()
        self._tools = tools
        self._found: dict[str, BaseTool] = {}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Adds the tools to the request."""
        return handler(self._add_tools(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Adds the tools to the request."""
        return await handler(await asyncio.to_thread(self._add_tools, request))

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Runs a tool that was added."""
        return handler(self._choose_tool(request))

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Runs a tool that was added."""
        return await handler(self._choose_tool(request))

    def _add_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        intents = [message.text for message in request.messages if isinstance(message, HumanMessage)]
        found = self._tools.find(intents[-1]) if intents else []
        self._found.update({tool.name: tool for tool in found})
        return request.override(tools=[*request.tools, *found])

    def _choose_tool(self, request: ToolCallRequest) -> ToolCallRequest:
        found = self._found.get(request.tool_call["name"])
        return request.override(tool=found) if found and request.tool is None else request


def _convert(tool: Tool) -> BaseTool:
    def run(config: RunnableConfig, **arguments: Any) -> Any:
        return call(config, arguments, None)

    async def run_async(config: RunnableConfig, **arguments: Any) -> Any:
        return await call_in_thread(lambda on_start: call(config, arguments, on_start))

    def call(config: RunnableConfig, arguments: dict[str, Any], on_start: OnStart | None) -> Any:
        key = _key_of(config, tool, arguments)
        # When the graph goes on, it runs this function again; the key leads to the same run.
        ask = None if key is None else _Questions(tool.name, arguments)
        return tool.report(arguments, key=key, ask=ask, on_start=on_start)

    return StructuredTool.from_function(
        func=run,
        coroutine=run_async,
        name=tool.name,
        description=tool.description,
        args_schema=tool.schema,
        infer_schema=False,
    )


class _Questions:
    """The questions of one call, each an interrupt of the graph.

    When the graph goes on, it gives the decisions in the order of the questions. So the questions are those
    about all approvals that the run has asked for, also those that are decided.
    """

    def __init__(self, tool: str, arguments: Mapping[str, Any]) -> None:
        self._tool = tool
        self._arguments = arguments
        self._decisions: dict[str, Any] = {}

    def __call__(self, waiting: NeedsApproval, approval: RunApproval) -> bool:
        """Returns the decision about an approval, or interrupts the graph."""
        for asked in waiting.run.list_asked():
            if asked not in self._decisions and approval["id"] not in self._decisions:
                self._decisions[asked] = interrupt(
                    {
                        "type": "a2s_approval",
                        "tool": self._tool,
                        "arguments": dict(self._arguments),
                        **_tools.describe_error(waiting),
                    }
                )
        return _is_approved(self._decisions.get(approval["id"]))


def _key_of(config: RunnableConfig, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
    """Returns a key for this call in this task of a graph; none outside of a graph with a memory."""
    settings = config.get("configurable") or {}
    thread, task = settings.get("thread_id"), settings.get("checkpoint_ns")
    if not thread or not task:
        return None
    return _tools.key_of(str(thread), task, tool.name, dict(arguments))


def _is_approved(decision: Any) -> bool:
    """Reads the value that resumes a graph. Only a clear yes is one."""
    kind = decision.get("type") if isinstance(decision, Mapping) else decision
    return kind is True or kind == "approve"
