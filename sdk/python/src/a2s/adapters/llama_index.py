"""Capabilities as tools of LlamaIndex, with the extra `llama-index`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.objects import ObjectRetriever
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import BaseTool, FunctionTool, ToolMetadata

from .._interrupts import call_in_thread
from .._sync.toolbox import Tool, Toolbox

__all__ = ["A2SRetriever", "A2STools"]


class A2STools:
    """Makes tools for a `FunctionAgent`. Takes the arguments of `Toolbox`.

    A run that waits for an approval is reported to the model with its id, unless `on_approval` has a
    person asked. The same call goes on with the same run.
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

    def retriever(self) -> A2SRetriever:
        """Returns a `tool_retriever`, which gives the agent the tools that fit its input."""
        return A2SRetriever(self)


class A2SRetriever(ObjectRetriever[BaseTool]):
    """Retrieves the tools that fit the input of an agent."""

    def __init__(self, tools: A2STools) -> None:
        # Without a call of the constructor above: there is no index of nodes.
        self._tools = tools

    def retrieve(self, str_or_query_bundle: str | QueryBundle) -> list[BaseTool]:
        """Returns the tools that fit."""
        query = str_or_query_bundle
        return self._tools.find(query if isinstance(query, str) else query.query_str)

    async def aretrieve(self, str_or_query_bundle: str | QueryBundle) -> list[BaseTool]:
        """Returns the tools that fit."""
        return await asyncio.to_thread(self.retrieve, str_or_query_bundle)


@dataclass
class _Metadata(ToolMetadata):
    """The description of a tool, whose schema is not a model of Pydantic."""

    schema: dict[str, Any] = field(default_factory=dict)

    def get_parameters_dict(self) -> dict[str, Any]:
        return self.schema


def _convert(tool: Tool) -> BaseTool:
    def run(**arguments: Any) -> Any:
        return tool.report(arguments)

    async def run_async(**arguments: Any) -> Any:
        return await call_in_thread(lambda on_start: tool.report(arguments, on_start=on_start))

    metadata = _Metadata(description=tool.description, name=tool.name, schema=tool.schema)
    return FunctionTool(fn=run, async_fn=run_async, metadata=metadata)
