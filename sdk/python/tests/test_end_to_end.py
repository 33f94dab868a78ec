"""The SDK against the real program."""

from __future__ import annotations

import asyncio

import pytest

import a2s
from service import Service

CODE = "country_code"


def test_from_search_to_run(service: Service) -> None:
    with service.registry() as registry:
        hits = registry.search_capabilities("which kinds of dogs are there", limit=1)
        document = registry.verify_checksum(hits[0])
        plan = registry.plan(hits[0], preview=True)
        run = plan.run(intent="which kinds of dogs are there")
        assert run.output == {"breeds": [{"id": "1", "attributes": {"name": "Akita"}}]}
        assert {hits[0]["checksum"], document["checksum"], plan["capability"]["checksum"]} == {
            run["checksum"]
        }
        assert [event["type"] for event in run.events()][-1] == "run_finished"
        with pytest.raises(a2s.Conflict) as caught:
            plan.run()
        assert caught.value.code == "A2S377"


def test_every_shipped_document(service: Service) -> None:
    with service.registry() as registry:
        changes = list(registry.list_changes())
        assert len(changes) == 42
        for change in changes:
            document = registry.verify_checksum(change)
            assert a2s.compute_checksum(document) == change["checksum"]


def test_approval(service: Service) -> None:
    with service.registry() as registry:
        with pytest.raises(a2s.NeedsApproval) as caught:
            registry.run("GetCountry", {CODE: "FR"})
        assert registry.list_approvals("pending")[0]["id"] == caught.value.approvals[0]["id"]
        registry.approve(caught.value.approvals[0]["id"], decided_by="ann", reason="France is fine.")
        registry.resume_run(caught.value.run.id, "repeat")
        assert caught.value.wait().output["capital"] == "Paris"


def test_rejection(service: Service) -> None:
    async def reject() -> None:
        async with service.async_registry() as registry:
            with pytest.raises(a2s.NeedsApproval) as caught:
                await registry.run("GetCountry", {CODE: "DE"})
            await registry.reject(caught.value.approvals[0]["id"], reason="no")
            await registry.resume_run(caught.value.run.id, "repeat")
            with pytest.raises(a2s.Denied):
                await caught.value.wait()

    asyncio.run(reject())


def test_state(service: Service) -> None:
    with service.registry() as registry:
        store = a2s.StateStore(registry, "session-1")
        store.set(CODE, "FR")
        assert store.list()[0]["value"] == "FR"
        executor = a2s.CapabilityExecutor(registry, store)
        with pytest.raises(a2s.NeedsApproval) as caught:
            executor.execute_capability_tasks("GetCountry")
        caught.value.run.cancel()
        with pytest.raises(a2s.RunFailed):
            caught.value.run.refresh().wait()
        store.delete(CODE)
        assert store.get(CODE) is None
        with pytest.raises(a2s.MissingInput) as missing:
            executor.run("GetCountry")
        assert [field["name"] for field in missing.value.missing] == [CODE]


def test_publish_and_follow(service: Service) -> None:
    with service.registry() as registry:
        document = registry.get_capability("ListDogBreeds")
        document = {**document, "version": "1.1.0", "description": "Lists the breeds of dogs"}
        with pytest.raises(a2s.InvalidDocument) as caught:
            registry.publish(document)
        assert a2s.compute_checksum(document) in caught.value.diagnostics[0]["message"]
        document["checksum"] = a2s.compute_checksum(document)
        assert registry.publish(document)["created"]
        registry.yank("ListDogBreeds", "1.1.0")
        changes = registry.follow_changes(since=42)
        assert [next(changes)["action"] for _ in range(2)] == ["publish", "yank"]
        changes.close()


def test_agent(service: Service) -> None:
    async def ask() -> None:
        async with service.async_registry() as registry:
            events: list[str] = []
            agent = a2s.AsyncA2SAgent().use_registries([registry])
            response = await agent.handle_request(
                "list dog breeds", on_event=lambda e: events.append(e["type"])
            )
            assert response["status"] == "completed"
            assert events[0] == "heard"
            assert agent.session == response["session"]

    asyncio.run(ask())
