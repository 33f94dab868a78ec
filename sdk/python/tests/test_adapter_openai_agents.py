"""The adapter for the OpenAI Agents SDK, with the scripted model of the library."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext

import a2s
from a2s.adapters.openai_agents import A2STools
from fake_a2s import COUNTRY, SLOW, TWEET, TWICE, WIPE, pin
from support import Json
from worlds import World

set_tracing_disabled(True)


def run_agent(
    world: World, tools: list[Any], *steps: Any, query: str = "go", decide: str | None = None
) -> Any:
    """Runs an agent over a script, and approves or rejects what interrupts it."""

    async def run() -> Any:
        model = ScriptedModel([[step] for step in (*steps, assistant_message("done"))])
        agent = Agent(name="test", model=model, tools=tools)
        result = await Runner.run(agent, query)
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                getattr(state, decide or "")(item)
            result = await Runner.run(agent, state)
        model.assert_complete()
        return result

    return world.run(run())


def outputs(result: Any) -> list[Json]:
    items = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    return [json.loads(item) if item[:1] in "{[" else item for item in items]


def test_pinned_tools(world: World) -> None:
    async def tools() -> Any:
        return await A2STools(world.asynchronous()).tools([pin(COUNTRY)])

    (tool,) = made = world.run(tools())
    assert tool.name == "GetCountry"
    assert tool.params_json_schema["required"] == ["code"]
    assert list(tool.params_json_schema["properties"]) == ["code", "fields"]
    result = run_agent(world, made, function_call("GetCountry", {"code": "FR"}, call_id="1"))
    assert outputs(result) == [{"capital": "Paris", "code": "FR"}]
    assert result.final_output == "done"


def test_errors_reach_the_model(world: World) -> None:
    async def tools() -> Any:
        return await A2STools(world.asynchronous()).tools([pin(COUNTRY), pin(WIPE)])

    made = world.run(tools())
    calls = [function_call(n, a, call_id=str(i)) for i, (n, a) in enumerate(
        [("GetCountry", {}), ("GetCountry", {"x": 1}), ("WipeDisk", {})])]  # fmt: skip
    missing, unknown, denied = outputs(run_agent(world, made, *calls))
    assert (missing["error"], missing["missing"][0]["name"]) == ("MissingInput", "code")
    assert unknown["error"] == "InvalidInput"
    assert (denied["error"], denied["code"]) == ("Denied", "A2S340")


@pytest.mark.parametrize(("decide", "tweets"), [("approve", ["hi"]), ("reject", [])])
def test_approval(world: World, decide: str, tweets: list[str]) -> None:
    async def tools() -> Any:
        registry = world.asynchronous()
        return await A2STools(registry, approver=world.asynchronous(owner=True)).tools([pin(TWEET)])

    made = world.run(tools())
    result = run_agent(world, made, function_call("PostTweet", {"text": "hi"}, call_id="1"), decide=decide)
    assert world.fake.tweets == tweets
    assert (outputs(result) == ["posted"]) is (decide == "approve")


def test_an_unforeseen_approval(world: World) -> None:
    """Without the rights of an approver, the model learns that the run waits."""
    world.fake.foresees = False

    async def tools() -> Any:
        return await A2STools(world.asynchronous()).tools([pin(TWEET)])

    result = run_agent(world, world.run(tools()), function_call("PostTweet", {"text": "hi"}, call_id="1"))
    (waiting,) = outputs(result)
    assert (waiting["error"], waiting["run"]) == ("NeedsApproval", "run-0")
    assert world.fake.tweets == []


def test_search_toolset(world: World) -> None:
    tools: list[Any] = list(A2STools(world.asynchronous()).toolset())
    calls: list[tuple[str, Json]] = [
        ("run_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
        ("search_capabilities", {"intent": "facts about a country"}),
        ("plan_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
        ("run_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
        ("search_capabilities", {"intent": "prove something"}),
    ]
    result = run_agent(world, tools, *(function_call(n, a, call_id=str(i)) for i, (n, a) in enumerate(calls)))
    unknown, found, plan, ran, nothing = outputs(result)
    assert unknown["error"] == "InvalidInput"
    assert found["capabilities"][0]["capability"] == "GetCountry@1.0.0"
    assert plan["steps"][0]["url"] == "https://x.example"
    assert ran == {"capital": "Paris", "code": "FR"}
    assert nothing["nearest"] == ["GetCountry: Looks up facts"]
    # The run is the plan that was made for the question of whether a person must approve it.
    (started,) = (r.json() for r in world.fake.received if r.path == "/v1/executions")
    assert world.fake.plans[started["plan"]]["checksum"] == COUNTRY["checksum"]
    assert started["intent"] == "facts about a country"


def test_find(world: World) -> None:
    async def tools() -> Any:
        return await A2STools(world.asynchronous()).find("tweet about a country")

    assert [tool.name for tool in world.run(tools())] == ["GetCountry", "PostTweet"]


def test_a_lying_registry(world: World) -> None:
    world.fake.lies = True

    async def tools(pinned: list[str]) -> Any:
        return await A2STools(world.asynchronous()).tools(pinned)

    with pytest.raises(a2s.ChecksumMismatch):
        world.run(tools([pin(COUNTRY)]))
    with pytest.raises(a2s.InvalidInput, match="no checksum"):
        world.run(tools(["GetCountry@1.0.0"]))
    tools_of_search: list[Any] = list(A2STools(world.asynchronous()).toolset())
    calls = [
        function_call("search_capabilities", {"intent": "country"}, call_id="1"),
        function_call("run_capability", {"capability": "GetCountry@1.0.0"}, call_id="2"),
    ]
    assert outputs(run_agent(world, tools_of_search, *calls))[1]["error"] == "ChecksumMismatch"
    assert world.fake.runs == {}


def test_wrong_arguments(world: World) -> None:
    tools: list[Any] = list(A2STools(world.asynchronous()).toolset())
    calls = [
        function_call("search_capabilities", {"intent": 1}, call_id="1"),
        function_call("run_capability", {"capability": "x", "inputs": []}, call_id="2"),
        function_call("run_capability", {"capability": "x", "inputs": [1]}, call_id="3"),
    ]
    assert [o["error"] for o in outputs(run_agent(world, tools, *calls))] == ["InvalidInput"] * 3


def made(world: World, *documents: Json) -> list[Any]:
    async def tools() -> Any:
        approver = world.asynchronous(owner=True)
        return await A2STools(world.asynchronous(), approver=approver).tools([pin(it) for it in documents])

    return world.run(tools())


def test_two_approvals_are_two_questions(world: World) -> None:
    calls = [function_call("PostTwice", {"text": "hi"}, call_id=str(number)) for number in (1, 2)]
    first, second = outputs(run_agent(world, made(world, TWICE), *calls, decide="approve"))
    assert (first["error"], second) == ("NeedsApproval", "posted")
    # The second call has gone on with the run of the first.
    assert list(world.fake.runs) == ["run-0"]
    assert world.fake.decisions == {"approval-run-0": "approve", "second-run-0": "approve"}


def test_a_stopped_call_cancels_its_run(world: World) -> None:
    async def stop() -> None:
        tools = await A2STools(world.asynchronous()).tools([pin(SLOW)])
        model = ScriptedModel([[function_call("WaitLong", {}, call_id="1")]])
        task = asyncio.ensure_future(Runner.run(Agent(name="t", model=model, tools=list(tools)), "go"))
        await asyncio.to_thread(world.fake.is_followed.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The framework does not wait for the tools that it cancels.
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    world.run(stop())
    assert world.fake.runs["run-0"]["status"] == "cancelled"


def test_the_same_call_twice_is_one_run(world: World) -> None:
    (tool,) = made(world, COUNTRY)

    async def call() -> Any:
        arguments = '{"code": "FR"}'
        context = ToolContext(None, tool_name="GetCountry", tool_call_id="1", tool_arguments=arguments)
        return await tool.on_invoke_tool(context, arguments)

    assert world.run(call()) == world.run(call())
    assert len(world.fake.runs) == 1
