"""The adapter for Google ADK, with a model of our own: the library has no fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from a2s.adapters.google_adk import A2SToolset
from fake_a2s import COUNTRY, SLOW, TWEET, TWICE, WIPE, pin
from support import Json
from worlds import World


class ScriptedLlm(BaseLlm):
    """A model that makes the given calls, one after the other, and remembers its tools."""

    calls: list[tuple[str, Json]]
    offered: list[list[str]]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.offered.append(list(llm_request.tools_dict))
        if self.calls:
            name, arguments = self.calls.pop(0)
            part = types.Part.from_function_call(name=name, args=arguments)
        else:
            part = types.Part.from_text(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class Talk:
    """A conversation with an agent."""

    def __init__(self, world: World, toolset: A2SToolset, *calls: tuple[str, Json]) -> None:
        self.world = world
        self.model = ScriptedLlm(model="scripted", calls=list(calls), offered=[])
        agent = LlmAgent(name="test", model=self.model, tools=[toolset])
        self.runner = InMemoryRunner(agent, app_name="test")
        sessions = self.runner.session_service
        self.session = world.run(sessions.create_session(app_name="test", user_id="ann"))

    def say(self, part: types.Part) -> list[Any]:
        async def run() -> list[Any]:
            content = types.Content(role="user", parts=[part])
            events = self.runner.run_async(user_id="ann", session_id=self.session.id, new_message=content)
            return [event async for event in events]

        return self.world.run(run())


def outputs(events: list[Any]) -> list[Json]:
    return [response.response for event in events for response in event.get_function_responses()]


def text(words: str) -> types.Part:
    return types.Part.from_text(text=words)


def test_pinned_tools(world: World) -> None:
    toolset = A2SToolset(world.asynchronous(), [pin(COUNTRY), pin(WIPE)])
    talk = Talk(world, toolset, ("GetCountry", {"code": "FR"}), ("GetCountry", {}), ("WipeDisk", {}))
    good, missing, denied = outputs(talk.say(text("go")))
    assert good == {"capital": "Paris", "code": "FR"}
    assert missing["error"] == "MissingInput"
    assert denied["error"] == "Denied"
    assert talk.model.offered[0] == ["GetCountry", "WipeDisk"]


@pytest.mark.parametrize(("confirmed", "tweets"), [(True, ["hi"]), (False, [])])
def test_confirmation(world: World, confirmed: bool, tweets: list[str]) -> None:
    toolset = A2SToolset(world.asynchronous(), [pin(TWEET)], approver=world.asynchronous(owner=True))
    talk = Talk(world, toolset, ("PostTweet", {"text": "hi"}))
    events = talk.say(text("tweet hi"))
    requests = [call for event in events for call in event.get_function_calls()]
    (request,) = [call for call in requests if call.name == "adk_request_confirmation"]
    assert world.fake.tweets == []
    answer = types.FunctionResponse(id=request.id, name=request.name, response={"confirmed": confirmed})
    results = outputs(talk.say(types.Part(function_response=answer)))
    assert world.fake.tweets == tweets
    assert ({"result": "posted"} in results) is confirmed


def test_search_toolset(world: World) -> None:
    talk = Talk(
        world,
        A2SToolset(world.asynchronous(), search=True),
        ("search_capabilities", {"intent": "country"}),
        ("plan_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
        ("run_capability", {"capability": "GetCountry@1.0.0", "inputs": {"code": "FR"}}),
    )
    found, plan, ran = outputs(talk.say(text("go")))
    assert found["capabilities"][0]["capability"] == "GetCountry@1.0.0"
    assert plan["steps"]
    assert ran["capital"] == "Paris"


def test_tool_search(world: World) -> None:
    toolset = A2SToolset(world.asynchronous(), discover=True)
    talk = Talk(world, toolset, ("GetCountry", {"code": "FR"}))
    assert outputs(talk.say(text("facts about a country"))) == [{"capital": "Paris", "code": "FR"}]
    assert talk.model.offered[0] == ["GetCountry"]


def test_two_approvals_are_two_confirmations(world: World) -> None:
    toolset = A2SToolset(world.asynchronous(), [pin(TWICE)], approver=world.asynchronous(owner=True))
    talk = Talk(world, toolset, *[("PostTwice", {"text": "hi"})] * 2)
    events = talk.say(text("go"))
    for decided in ({}, {"approval-run-0": "approve"}):
        assert world.fake.decisions == decided
        requests = [call for event in events for call in event.get_function_calls()]
        (request,) = [call for call in requests if call.name == "adk_request_confirmation"]
        answer = types.FunctionResponse(id=request.id, name=request.name, response={"confirmed": True})
        events = talk.say(types.Part(function_response=answer))
    assert {"result": "posted"} in outputs(events)
    assert list(world.fake.runs) == ["run-0"]


def test_a_stopped_call_cancels_its_run(world: World) -> None:
    talk = Talk(world, A2SToolset(world.asynchronous(), [pin(SLOW)]), ("WaitLong", {}))

    async def follow() -> None:
        words = types.Content(role="user", parts=[text("go")])
        events = talk.runner.run_async(user_id="ann", session_id=talk.session.id, new_message=words)
        async for _ in events:
            pass

    async def stop() -> None:
        task = asyncio.ensure_future(follow())
        await asyncio.to_thread(world.fake.is_followed.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    world.run(stop())
    assert world.fake.runs["run-0"]["status"] == "cancelled"


def test_the_same_call_twice_is_one_run(world: World) -> None:
    context: Any = SimpleNamespace(
        tool_confirmation=None, session=SimpleNamespace(id="s"), function_call_id="1"
    )

    async def call() -> Any:
        (tool,) = await A2SToolset(world.asynchronous(), [pin(COUNTRY)]).get_tools()
        return await tool.run_async(args={"code": "FR"}, tool_context=context)

    assert world.run(call()) == world.run(call())
    assert len(world.fake.runs) == 1
