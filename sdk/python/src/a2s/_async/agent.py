"""The names of the text of A2S above the registry: agent, executor, and store of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast, overload

from .. import _agent
from .._agent import AsyncOnConsent, AsyncOnQuestion, OnEvent
from .._request import AnyCapability, Capability, Given, is_plan, values_of, without_none
from .._typed import Inputs, InputsFor, Output, TypedCapability
from ..errors import A2SError
from ..types import AgentQuestion, AgentResponse, SearchFilters, StateEntry, StateFor, Strategy
from .registry import AsyncA2SRegistry
from .run import AsyncRun


class AsyncA2SAgent:
    """An agent that does what a person asks for.

    The agent itself runs beside the registry: it finds capabilities, asks for what is missing, and has
    them run. This class holds the conversation with it.
    """

    def __init__(self) -> None:
        self._registries: list[AsyncA2SRegistry] = []
        self.session: str | None = None
        """The conversation, which the next request continues."""

    def use_registries(self, registries: Iterable[AsyncA2SRegistry]) -> AsyncA2SAgent:
        """Sets the registries. The next one is asked when nothing fits in the one before."""
        self._registries = list(registries)
        return self

    async def handle_request(
        self,
        query: str,
        on_question: AsyncOnQuestion | None = None,
        on_consent: AsyncOnConsent | None = None,
        on_event: OnEvent | None = None,
        session: str | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        strategy: Strategy | None = None,
        filters: SearchFilters | None = None,
    ) -> AgentResponse:
        """Does what a query asks for, and returns the last response of the agent.

        - `on_question` answers a question: with inputs by name, with a choice, or with none, which
          leaves it open.
        - `on_consent` gets the question with the `actions` (or the `delegation` or `proposal`) that the agent
          would run, and returns whether it may.
        - `on_event` gets each event as it comes.
        - `context` has the `values` of the last response, for a query that refers to it.

        Without a callback, the response with the question is returned.
        """
        session = session or self.session
        response: AgentResponse | None = None
        for registry in self._registries:
            request = {
                "message": query,
                **without_none(
                    session=session,
                    context=context,
                    inputs=inputs,
                    strategy=strategy,
                    filters=filters,
                ),
            }
            response = await self._converse(registry, request, on_question, on_consent, on_event)
            self.session = response["session"]
            if response["status"] != "nothing_fits":
                break
        if response is None:
            raise A2SError("the agent has no registry", hint="Call `use_registries` first.")
        return response

    async def _converse(
        self,
        registry: AsyncA2SRegistry,
        request: Mapping[str, Any],
        on_question: AsyncOnQuestion | None,
        on_consent: AsyncOnConsent | None,
        on_event: OnEvent | None,
    ) -> AgentResponse:
        for _ in range(_agent.MAX_TURNS):
            last = None
            async for event in registry.ask_agent(request):
                last = event
                if on_event:
                    on_event(event)
            response = _agent.response_of(last)
            question = response.get("question")
            if response["status"] != "input_required" or question is None:
                return response
            reply = await self._answer(question, on_question, on_consent)
            if reply is None:
                return response
            request = _agent.follow_up(request, response, reply)
        raise A2SError("the agent has asked too many questions")

    async def _answer(
        self,
        question: AgentQuestion,
        on_question: AsyncOnQuestion | None,
        on_consent: AsyncOnConsent | None,
    ) -> dict[str, Any] | None:
        if _agent.asks_consent(question):
            if on_consent is None:
                return None
            return _agent.reply_to(question, await on_consent(question))
        answer = await on_question(question) if on_question else None
        return None if answer is None else _agent.reply_to(question, answer)


class AsyncStateStore:
    """The values that the executor remembers: those of a session, or those that stay."""

    def __init__(
        self,
        registry: AsyncA2SRegistry,
        session: str | None = None,
        audience: StateFor | None = None,
    ) -> None:
        self._registry = registry
        self._audience = audience
        self.session = session
        """The session; none for the values that stay."""

    async def get(self, name: str, default: Any = None) -> Any:
        """Returns a value, or the default when none is remembered."""
        return next((entry["value"] for entry in await self.list() if entry["name"] == name), default)

    async def set(self, name: str, value: Any) -> None:
        """Remembers a value."""
        await self._registry.set_state(name, value, self.session, self._audience)

    async def delete(self, name: str) -> None:
        """Forgets a value."""
        await self._registry.delete_state(name, self.session, self._audience)

    async def list(self) -> list[StateEntry]:
        """Returns all values."""
        return await self._registry.list_state(self.session, self._audience)


class AsyncCapabilityExecutor:
    """The executor of a registry. With a `StateStore`, runs belong to its session and use its values."""

    def __init__(self, registry: AsyncA2SRegistry, state_store: AsyncStateStore | None = None) -> None:
        self._registry = registry
        self._session = state_store.session if state_store else None

    @overload
    async def run(
        self,
        capability: TypedCapability[Inputs, Output],
        inputs: InputsFor[Inputs],
        intent: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
    ) -> AsyncRun[Output]: ...

    @overload
    async def run(
        self,
        capability: Capability,
        inputs: Mapping[str, Any] | None = None,
        intent: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
    ) -> AsyncRun: ...

    async def run(
        self,
        capability: AnyCapability,
        inputs: Given = None,
        intent: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
    ) -> AsyncRun:
        """Runs a capability or a plan, as `run` of the registry does."""
        return await self._registry.run(
            cast("Capability", capability),
            values_of(inputs),
            None if is_plan(capability) else self._session,
            intent,
            idempotency_key,
            wait,
            timeout,
        )

    @overload
    async def execute_capability_tasks(
        self, capability: TypedCapability[Inputs, Output], inputs: InputsFor[Inputs]
    ) -> AsyncRun[Output]: ...

    @overload
    async def execute_capability_tasks(
        self, capability: Capability, inputs: Mapping[str, Any] | None = None
    ) -> AsyncRun: ...

    async def execute_capability_tasks(self, capability: AnyCapability, inputs: Given = None) -> AsyncRun:
        """Runs the tasks of a capability: the name of `run` in the text of A2S."""
        return await self.run(cast("Capability", capability), values_of(inputs))
