"""The official client of A2A against an agent: it finds the card, sends, streams, gets and cancels.

Reads {"url", "token", "versions", "quick", "slow"} and prints what it saw of each version, as JSON."""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import get_message_text, new_text_message
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    Role,
    SendMessageRequest,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict


def ask(text, **more):
    return SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER, **more))


def state(task):
    return TaskState.Name(task.status.state).removeprefix("TASK_STATE_")


async def talk(http, card, version, told):
    """One version of the protocol: the interface of the card that speaks it."""
    chosen = AgentCard()
    chosen.CopyFrom(card)
    del chosen.supported_interfaces[:]
    chosen.supported_interfaces.extend(
        one for one in card.supported_interfaces if one.protocol_version == version
    )

    def client(**how):
        return ClientFactory(ClientConfig(httpx_client=http, **how)).create(chosen)

    saw = {}
    async for answer in client(streaming=False).send_message(ask(told["quick"])):
        task = answer.task
    saw["sent"] = state(task)
    saw["artifact"] = MessageToDict(task.artifacts[0].parts[0])["data"]["output"]

    streaming = client(streaming=True)
    kinds = []
    async for event in streaming.send_message(ask(told["quick"])):
        kinds.append(event.WhichOneof("payload"))
        if kinds[-1] == "task":
            task = event.task
        if kinds[-1] == "status_update":
            last = event.status_update
    saw["streamed"] = [kinds[0], kinds[-1], state(last)]
    saw["got"] = state(await streaming.get_task(GetTaskRequest(id=task.id)))

    async for answer in client(streaming=False).send_message(ask(told["asks"])):
        task = answer.task
    saw["asked"] = [state(task), get_message_text(task.status.message)]
    answer = ask(told["answer"], task_id=task.id, context_id=task.context_id)
    async for answer in client(streaming=False).send_message(answer):
        saw["confirms"] = state(answer.task)
    answer = ask("yes", task_id=task.id, context_id=task.context_id)
    async for answer in client(streaming=False).send_message(answer):
        saw["answered"] = [state(answer.task), answer.task.id == task.id]

    async for answer in client(streaming=False, polling=True).send_message(ask(told["slow"])):
        task = answer.task
    saw["begun"] = state(task)
    saw["cancelled"] = state(await streaming.cancel_task(CancelTaskRequest(id=task.id)))
    try:
        await streaming.get_task(GetTaskRequest(id="no-such-task"))
    except A2AError as error:
        saw["unknown"] = type(error).__name__
    return saw


async def main():
    told = json.load(sys.stdin)
    headers = {"Authorization": f"Bearer {told['token']}"}
    async with httpx.AsyncClient(headers=headers, timeout=60, trust_env=False) as http:
        card = await A2ACardResolver(http, told["url"]).get_agent_card()
        saw = {"name": card.name, "skills": sorted(skill.id for skill in card.skills)}
        for version in told["versions"]:
            saw[version] = await talk(http, card, version, told)
    print(json.dumps(saw))


asyncio.run(main())
