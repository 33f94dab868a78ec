"""Capabilities as a toolset of Google's Agent Development Kit, with the extra `google-adk`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai.types import FunctionDeclaration

from .. import _tools
from .._async.registry import AsyncA2SRegistry
from .._async.toolbox import AsyncTool, AsyncToolbox

__all__ = ["A2STool", "A2SToolset"]


class A2SToolset(BaseToolset):
    """A toolset for an `LlmAgent`. Takes the options of `AsyncToolbox`.

    - `pinned`: a typed tool for each `NAME@VERSION#CHECKSUM`.
    - `search`: three tools, with which the model searches, plans and runs.
    - `discover`: typed tools for the message of the person, found without a call of a model.

    A call that the guardian wants approved asks for a tool confirmation. See `approver`.
    """

    def __init__(
        self,
        registry: AsyncA2SRegistry,
        pinned: Sequence[str] = (),
        *,
        search: bool = False,
        discover: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self._toolbox = AsyncToolbox(registry, **options)
        self._pinned = pinned
        self._loaded: list[AsyncTool] | None = None
        self._search = search
        self._discover = discover

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        """Returns the tools. The first call verifies the pinned capabilities."""
        if self._loaded is None:
            self._loaded = await self._toolbox.pinned(self._pinned)
        tools = [*self._loaded, *(self._toolbox.search_tools() if self._search else [])]
        if self._discover and (intent := _intent_of(readonly_context)):
            names = {tool.name for tool in tools}
            tools += [tool for tool in await self._toolbox.find(intent) if tool.name not in names]
        return [A2STool(tool) for tool in tools]


class A2STool(BaseTool):
    """A tool of the toolset."""

    def __init__(self, tool: AsyncTool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._tool = tool

    def _get_declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._tool.schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Runs the tool, or asks for a confirmation first."""
        confirmation = tool_context.tool_confirmation
        if confirmation is None and await self._tool.needs_approval(args):
            tool_context.request_confirmation(hint=f"May {self.name} run with these inputs?", payload=args)
            tool_context.actions.skip_summarization = True
            return {"error": "This call waits for the confirmation of a person."}
        if confirmation is not None and not confirmation.confirmed:
            return {"error": "A person did not confirm this call."}
        key = _tools.key_of(tool_context.session.id, tool_context.function_call_id, self.name, args)
        result = await self._tool.report(args, approved=confirmation is not None, key=key)
        return result if isinstance(result, dict) else {"result": result}


def _intent_of(context: ReadonlyContext | None) -> str:
    """Returns the text of the person's message."""
    content = context.user_content if context else None
    return " ".join(part.text for part in (content.parts if content else None) or () if part.text)
