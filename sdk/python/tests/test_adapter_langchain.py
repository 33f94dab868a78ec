"""The adapter for LangChain and LangGraph, with the fake chat model of the library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from a2s.adapters.langchain import A2STools
from fake_a2s import COUNTRY, SLOW, TWEET, TWICE, WIPE, pin
from support import Json
from worlds import World

THREAD: Any = {"configurable": {"thread_id": "1"}}


class FakeModel(GenericFakeChatModel):
    """The fake of the library, which accepts tools and remembers their names."""

    bound: list[list[str]]

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        self.bound.append([tool["name"] if isinstance(tool, dict) else tool.name for tool in tools])
        return self


def script(*calls: tuple[str, Json]) -> FakeModel:
    messages = [
        AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{number}"}])
        for number, (name, arguments) in enumerate(calls)
    ]
    return FakeModel(messages=iter([*messages, AIMessage("done")]), bound=[])


def outputs(result: Any) -> list[Json]:
    texts = [str(m.content) for m in result["messages"] if isinstance(m, ToolMessage)]
    return [json.loads(text) if text[:1] in "{[" else text for text in texts]


def ask(text: str) -> Any:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize("is_async", [False, True])
def test_pinned_tools(world: World, is_async: bool) -> None:
    tools = A2STools(world.synchronous()).tools([pin(COUNTRY), pin(WIPE)])
    model = script(("GetCountry", {"code": "FR"}), ("GetCountry", {}), ("WipeDisk", {}))
    agent: Any = create_agent(model, tools)
    result = asyncio.run(agent.ainvoke(ask("go"))) if is_async else agent.invoke(ask("go"))
    good, missing, denied = outputs(result)
    assert good == {"capital": "Paris", "code": "FR"}
    assert missing["error"] == "MissingInput"
    assert denied["error"] == "Denied"
    assert tools[0].tool_call_schema["required"] == ["code"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("decision", "tweets"),
    [({"type": "approve"}, ["hi"]), (True, ["hi"]), ({"type": "reject"}, []), (1, []), ("yes", [])],
)
def test_approval_interrupts_the_graph(world: World, decision: Any, tweets: list[str]) -> None:
    tools = A2STools(world.synchronous(), approver=world.synchronous(owner=True)).tools([pin(TWEET)])
    agent: Any = create_agent(script(("PostTweet", {"text": "hi"})), tools, checkpointer=InMemorySaver())
    paused = agent.invoke(ask("tweet hi"), THREAD)
    (interrupt,) = paused["__interrupt__"]
    assert interrupt.value["tool"] == "PostTweet"
    assert interrupt.value["arguments"] == {"text": "hi"}
    assert interrupt.value["run"] == "run-0"
    assert world.fake.tweets == []
    result = agent.invoke(Command(resume=decision), THREAD)
    # The tool function ran twice, and led to one run.
    assert list(world.fake.runs) == ["run-0"]
    assert world.fake.tweets == tweets
    (output,) = outputs(result)
    assert output == "posted" if tweets else output["error"] == "Denied"


def test_a_rejection_without_an_approver_cancels_the_run(world: World) -> None:
    tools = A2STools(world.synchronous()).tools([pin(TWEET)])
    agent: Any = create_agent(script(("PostTweet", {"text": "hi"})), tools, checkpointer=InMemorySaver())
    agent.invoke(ask("tweet hi"), THREAD)
    agent.invoke(Command(resume=False), THREAD)
    assert world.fake.runs["run-0"]["status"] == "cancelled"


def test_without_a_memory_the_model_learns_that_the_run_waits(world: World) -> None:
    tools = A2STools(world.synchronous()).tools([pin(TWEET)])
    result = create_agent(script(("PostTweet", {"text": "hi"})), tools).invoke(ask("tweet hi"))
    assert outputs(result)[0]["error"] == "NeedsApproval"


def test_human_in_the_loop_of_langchain(world: World) -> None:
    tools = A2STools(world.synchronous()).tools([pin(COUNTRY)])
    person = HumanInTheLoopMiddleware(interrupt_on={"GetCountry": True})
    model = script(("GetCountry", {"code": "FR"}))
    agent: Any = create_agent(model, tools, middleware=[person], checkpointer=InMemorySaver())
    assert agent.invoke(ask("go"), THREAD)["__interrupt__"]
    assert world.fake.runs == {}
    result = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert outputs(result) == [{"capital": "Paris", "code": "FR"}]


def test_search_toolset(world: World) -> None:
    model = script(
        ("search_capabilities", {"intent": "country"}),
        ("plan_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
        ("run_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
    )
    result = create_agent(model, A2STools(world.synchronous()).toolset()).invoke(ask("go"))
    found, plan, ran = outputs(result)
    assert found["capabilities"][0]["inputs"]["required"] == ["code"]
    assert plan["steps"]
    assert ran["capital"] == "Paris"


@pytest.mark.parametrize("is_async", [False, True])
def test_tool_search(world: World, is_async: bool) -> None:
    tools = A2STools(world.synchronous())
    model = script(("GetCountry", {"code": "FR"}))
    agent: Any = create_agent(model, [], middleware=[tools.tool_search()])
    question = ask("facts about a country")
    result = asyncio.run(agent.ainvoke(question)) if is_async else agent.invoke(question)
    assert outputs(result) == [{"capital": "Paris", "code": "FR"}]
    assert model.bound[0] == ["GetCountry"]


def test_two_approvals_are_two_interrupts(world: World) -> None:
    def graph() -> Any:
        # The tools of another process know nothing of the first question.
        tools = A2STools(world.synchronous(), approver=world.synchronous(owner=True)).tools([pin(TWICE)])
        return create_agent(model, tools, checkpointer=memory)

    model, memory = script(("PostTwice", {"text": "hi"})), InMemorySaver()
    first = graph().invoke(ask("go"), THREAD)["__interrupt__"]
    assert first[0].value["approvals"][0]["id"] == "approval-run-0"
    second = graph().invoke(Command(resume=True), THREAD)["__interrupt__"]
    assert second[0].value["approvals"][0]["id"] == "second-run-0"
    assert world.fake.decisions == {"approval-run-0": "approve"}
    # The first yes is not one for the second question.
    graph().invoke(Command(resume=False), THREAD)
    assert world.fake.decisions["second-run-0"] == "reject"
    assert list(world.fake.runs) == ["run-0"]
    assert world.fake.tweets == []


def test_a_stopped_call_cancels_its_run(world: World) -> None:
    agent: Any = create_agent(script(("WaitLong", {})), A2STools(world.synchronous()).tools([pin(SLOW)]))

    async def stop() -> None:
        task = asyncio.ensure_future(agent.ainvoke(ask("go")))
        await asyncio.to_thread(world.fake.is_followed.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stop())
    assert world.fake.runs["run-0"]["status"] == "cancelled"


def test_the_same_call_twice_is_one_run(world: World) -> None:
    (tool,) = A2STools(world.synchronous()).tools([pin(COUNTRY)])
    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": "tools:1"}}
    assert tool.invoke({"code": "FR"}, config) == tool.invoke({"code": "FR"}, config)
    assert len(world.fake.runs) == 1
