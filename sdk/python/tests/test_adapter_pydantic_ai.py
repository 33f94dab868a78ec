"""The adapter for Pydantic AI, with the function model and the test model of the library."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.capabilities import ToolSearch
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

import a2s
from a2s.adapters.pydantic_ai import A2SToolset
from fake_a2s import COUNTRY, SLOW, TWEET, TWICE, WIPE, pin
from support import Json
from worlds import World


class Script:
    """A model that makes the given calls, one after the other, and remembers its tools."""

    def __init__(self, *calls: tuple[str, Json]) -> None:
        self.calls = list(calls)
        self.offered: list[list[str]] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.offered.append([tool.name for tool in info.function_tools])
        if not self.calls:
            return ModelResponse([TextPart("done")])
        name, arguments = self.calls.pop(0)
        return ModelResponse([ToolCallPart(name, arguments)])


def outputs(result: Any) -> list[Json]:
    parts = [part for message in result.all_messages() for part in message.parts]
    found = [part.content for part in parts if isinstance(part, (ToolReturnPart, RetryPromptPart))]
    return [json.loads(text) if isinstance(text, str) and text.startswith("{") else text for text in found]


def make(world: World, script: Any, *pinned: Json, **options: Any) -> Agent[None, Any]:
    toolset = A2SToolset(world.asynchronous(), [pin(document) for document in pinned], **options)
    model = FunctionModel(script) if isinstance(script, Script) else script
    return Agent(model, toolsets=[toolset], output_type=[str, DeferredToolRequests])


def test_pinned_tools(world: World) -> None:
    script = Script(("GetCountry", {"code": "FR"}), ("GetCountry", {}), ("WipeDisk", {}))
    result = world.run(make(world, script, COUNTRY, WIPE).run("go"))
    good, missing, denied = outputs(result)
    assert good == {"capital": "Paris", "code": "FR"}
    assert missing["error"] == "MissingInput"
    assert denied["error"] == "Denied"
    assert result.output == "done"


def test_the_test_model_fills_the_schema(world: World) -> None:
    result = world.run(make(world, TestModel(), COUNTRY).run("go"))
    assert outputs(result)[0]["capital"] == "Paris"


@pytest.mark.parametrize(("decision", "tweets"), [(True, ["hi"]), (ToolDenied("no"), [])])
def test_deferred_approval(world: World, decision: Any, tweets: list[str]) -> None:
    approver = world.asynchronous(owner=True)
    agent = make(world, Script(("PostTweet", {"text": "hi"})), TWEET, approver=approver)
    paused = world.run(agent.run("tweet hi"))
    assert isinstance(paused.output, DeferredToolRequests)
    (call,) = paused.output.approvals
    assert paused.output.metadata[call.tool_call_id]["inputs"] == {"text": "hi"}
    assert paused.output.metadata[call.tool_call_id]["capability"]["checksum"] == TWEET["checksum"]
    assert world.fake.tweets == []
    results = DeferredToolResults(approvals={call.tool_call_id: decision})
    done = world.run(agent.run(message_history=paused.all_messages(), deferred_tool_results=results))
    assert done.output == "done"
    assert world.fake.tweets == tweets


def test_always_ask(world: World) -> None:
    agent = make(world, Script(("GetCountry", {"code": "FR"})), COUNTRY, always_ask=True)
    assert isinstance(world.run(agent.run("go")).output, DeferredToolRequests)
    assert world.fake.runs == {}


def test_search_toolset(world: World) -> None:
    script = Script(
        ("search_capabilities", {"intent": "country"}),
        ("plan_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
        ("run_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
    )
    found, plan, ran = outputs(world.run(make(world, script, search=True).run("go")))
    assert found["capabilities"][0]["capability"] == "GetCountry@1.0.0"
    assert plan["steps"]
    assert ran["capital"] == "Paris"


def test_tool_search(world: World) -> None:
    script = Script(("search_tools", {"queries": ["facts about a country"]}), ("GetCountry", {"code": "FR"}))
    pinned = [pin(document) for document in (COUNTRY, TWEET, WIPE)]
    toolset = A2SToolset(world.asynchronous(), pinned, defer_loading=True)
    agent = Agent(FunctionModel(script), toolsets=[toolset], capabilities=[ToolSearch(toolset.tool_search)])
    result = world.run(agent.run("go"))
    assert outputs(result)[-1] == {"capital": "Paris", "code": "FR"}
    assert [sorted(names) for names in script.offered[:2]] == [
        ["search_tools"],
        ["GetCountry", "search_tools"],
    ]


def test_a_lying_registry(world: World) -> None:
    world.fake.lies = True
    with pytest.raises(a2s.ChecksumMismatch):
        world.run(make(world, Script(), COUNTRY).run("go"))


def test_two_approvals_are_two_deferrals(world: World) -> None:
    approver = world.asynchronous(owner=True)
    agent = make(world, Script(("PostTwice", {"text": "hi"})), TWICE, approver=approver)
    result = world.run(agent.run("go"))
    for decided in ({}, {"approval-run-0": "approve"}):
        assert world.fake.decisions == decided
        (call,) = result.output.approvals
        answers = DeferredToolResults(approvals={call.tool_call_id: True})
        result = world.run(agent.run(message_history=result.all_messages(), deferred_tool_results=answers))
    assert (result.output, world.fake.tweets) == ("done", ["hi"])
    assert list(world.fake.runs) == ["run-0"]


def test_a_stopped_call_cancels_its_run(world: World) -> None:
    agent = make(world, Script(("WaitLong", {})), SLOW)

    async def stop() -> None:
        task = asyncio.ensure_future(agent.run("go"))
        await asyncio.to_thread(world.fake.is_followed.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    world.run(stop())
    assert world.fake.runs["run-0"]["status"] == "cancelled"


def test_the_same_call_twice_is_one_run(world: World) -> None:
    toolset = A2SToolset(world.asynchronous(), [pin(COUNTRY)])
    context: Any = SimpleNamespace(
        tool_call_approved=False, conversation_id="c", run_id="r", tool_call_id="1"
    )

    async def call() -> Any:
        tool = (await toolset.get_tools(context))["GetCountry"]
        return await toolset.call_tool("GetCountry", {"code": "FR"}, context, tool)

    assert world.run(call()) == world.run(call())
    assert len(world.fake.runs) == 1
