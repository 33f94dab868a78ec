"""The adapter for LlamaIndex, with the mock of a model that calls functions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

import a2s
from a2s.adapters.llama_index import A2STools
from fake_a2s import COUNTRY, SLOW, TWEET, TWICE, WIPE, pin
from support import Json
from worlds import World


def scripted(*calls: tuple[str, Json]) -> tuple[MockFunctionCallingLLM, list[list[str]]]:
    """Returns a model that makes the given calls, and the names of the tools that it is offered."""
    left = list(calls)
    offered: list[list[str]] = []

    def respond(messages: Sequence[ChatMessage], **options: Any) -> ChatMessage:
        offered.append([tool.metadata.name for tool in options.get("tools") or []])
        if not left:
            return ChatMessage(role="assistant", content="done")
        name, arguments = left.pop(0)
        block = ToolCallBlock(tool_call_id=str(len(left)), tool_name=name, tool_kwargs=arguments)
        return ChatMessage(role="assistant", blocks=[block])

    return MockFunctionCallingLLM(response_generator=respond), offered


def run_agent(
    world: World, tools: Any, *calls: tuple[str, Json], query: str = "go", retriever: Any = None
) -> tuple[list[Json], list[list[str]]]:
    """Runs an agent over a script, and returns the results of its tools and the names of what it had."""
    model, offered = scripted(*calls)

    async def run() -> list[Json]:
        agent = FunctionAgent(tools=tools, tool_retriever=retriever, llm=model, streaming=False)
        handler = agent.run(query)
        events = [e async for e in handler.stream_events() if isinstance(e, ToolCallResult)]
        await handler
        return [event.tool_output.raw_output for event in events]

    return world.run(run()), offered


def test_pinned_tools(world: World) -> None:
    tools = A2STools(world.synchronous()).tools([pin(COUNTRY), pin(TWEET), pin(WIPE)])
    calls = [
        ("GetCountry", {"code": "FR"}),
        ("GetCountry", {}),
        ("PostTweet", {"text": "hi"}),
        ("WipeDisk", {}),
    ]
    (good, missing, waiting, denied), offered = run_agent(world, tools, *calls)
    assert good == {"capital": "Paris", "code": "FR"}
    assert missing["error"] == "MissingInput"
    assert (waiting["error"], waiting["run"]) == ("NeedsApproval", "run-1")
    assert denied["error"] == "Denied"
    assert offered[0] == ["GetCountry", "PostTweet", "WipeDisk"]
    assert tools[0].metadata.get_parameters_dict()["required"] == ["code"]


def test_search_toolset(world: World) -> None:
    calls = [
        ("search_capabilities", {"intent": "country"}),
        ("plan_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
        ("run_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
    ]
    (found, plan, ran), _ = run_agent(world, A2STools(world.synchronous()).toolset(), *calls)
    assert found["capabilities"][0]["capability"] == "GetCountry@1.0.0"
    assert plan["steps"]
    assert ran["capital"] == "Paris"


def test_tool_search(world: World) -> None:
    retriever = A2STools(world.synchronous()).retriever()
    results, offered = run_agent(
        world, None, ("GetCountry", {"code": "FR"}), query="facts about a country", retriever=retriever
    )
    assert results == [{"capital": "Paris", "code": "FR"}]
    assert offered[0] == ["GetCountry"]


def test_each_approval_is_asked_about(world: World) -> None:
    asked: list[str] = []

    def decide(waiting: a2s.NeedsApproval, approval: Any) -> bool:
        asked.append(approval["id"])
        return True

    approver = world.synchronous(owner=True)
    tools = A2STools(world.synchronous(), approver=approver, on_approval=decide)
    documents = [pin(TWEET), pin(TWICE)]
    calls = [("PostTweet", {"text": "one"}), ("PostTwice", {"text": "two"})]
    results, _ = run_agent(world, tools.tools(documents), *calls)
    assert (results, world.fake.tweets) == (["posted", "posted"], ["one", "two"])
    assert asked == ["approval-run-0", "approval-run-1", "second-run-1"]


def test_the_same_call_goes_on_with_the_run_that_waits(world: World) -> None:
    tools = A2STools(world.synchronous()).tools([pin(TWEET)])
    results, _ = run_agent(world, tools, *[("PostTweet", {"text": "hi"})] * 2)
    assert [result["run"] for result in results] == ["run-0", "run-0"]


def test_a_stopped_call_cancels_its_run(world: World) -> None:
    (tool,) = A2STools(world.synchronous()).tools([pin(SLOW)])

    async def stop() -> None:
        task = asyncio.ensure_future(tool.acall())  # type: ignore[attr-defined]
        await asyncio.to_thread(world.fake.is_followed.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    world.run(stop())
    assert world.fake.runs["run-0"]["status"] == "cancelled"
