"""The registry and the executor: every operation of the API, in the order of its use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, cast, overload

import httpx

from .. import _request
from .._agent import read_event
from .._interrupts import async_complete
from .._request import (
    AnyCapability,
    Capability,
    Document,
    Given,
    OnAbort,
    Request,
    delete,
    get,
    post,
    put,
    without_none,
)
from .._search import SearchHits, ServiceHits
from .._streams import AsyncStream
from .._typed import Inputs, InputsFor, Output, TypedCapability
from .._versions import check_version, compare_with_hit
from ..checksum import compute_checksum, normalize_checksum, parse_json
from ..errors import A2SError, ChecksumMismatch, Drifted, InvalidDocument
from ..types import (
    AgentEvent,
    Approval,
    ApprovalStatus,
    AuditEntry,
    CapabilityGraph,
    CapabilityRef,
    CapabilityStats,
    CapabilitySummary,
    CapabilityVersions,
    Credential,
    CredentialUsers,
    DraftList,
    Event,
    FindabilityReport,
    ForgetResponse,
    GuardianPolicies,
    HostState,
    IndexStatus,
    IntrospectionResponse,
    LifecycleResponse,
    LogVerification,
    MirroredRegistry,
    NewToken,
    OutcomeReport,
    OwnerList,
    PolicyTrial,
    PublishResponse,
    RegistryChange,
    ReplayResponse,
    RunStatus,
    Scope,
    SearchCounts,
    SearchFilters,
    Service,
    StateEntry,
    StateFor,
    StepExchange,
    StepResolution,
    StoredCredential,
    Strategy,
    TokenEntry,
    TriggerEvent,
    TrimAuditResponse,
    TrustedVersion,
    UsageReport,
    UsageUnit,
    VerifyResponse,
)
from .run import AsyncPlan, AsyncRun, is_last, members_of
from .transport import AsyncTransport, deadline_of


class AsyncA2SRegistry:
    """A registry with its executor and guardian, at one address.

    - `url`: the address; by default `A2S_URL`, or this machine.
    - `token`: the token; by default `A2S_TOKEN`, or on this machine the owner's token.
    - `allow_insecure_tokens`: send the token over plain HTTP to other machines, too; by default
      `A2S_ALLOW_INSECURE_TOKENS`.
    - `timeout`: the time limit of a request in seconds. Streams have the limits of their calls.
    - `attempts`: the largest number of tries of a request.
    - `pause`: a function from the number of the try that failed, and from `Retry-After`, to the
      seconds before the next try.
    - `reconnect`: the seconds, in pauses, for which a lost stream or a run that is waited for is tried
      again.
    - `idle_timeout`: the seconds of silence after which a stream counts as lost. A2S writes into an idle
      stream every 15 seconds.
    - `on_behalf_of`: the end user, for a token with the scope `delegate`.
    - `client`: an httpx client of your own, for proxies or certificates.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        allow_insecure_tokens: bool | None = None,
        timeout: float = 30.0,
        attempts: int = 3,
        pause: _request.Pause = _request.default_pause,
        reconnect: float = 300.0,
        idle_timeout: float = 45.0,
        on_behalf_of: str | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        policy = _request.Policy(attempts, pause, reconnect, idle_timeout)
        self._transport = AsyncTransport(
            url, token, allow_insecure_tokens, on_behalf_of, timeout, policy, client
        )

    @property
    def url(self) -> str:
        """The address."""
        return str(self._transport.url)

    async def __aenter__(self) -> AsyncA2SRegistry:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._transport.aclose()

    async def _pause(self, deadline: float | None) -> None:
        """Waits as long as before another try."""
        await self._transport.sleep(_request.default_pause(1, None), deadline)

    async def _pause_for_approval(self, deadline: float | None) -> None:
        """Waits before another read of a run that waits for a person."""
        await self._transport.sleep_for_approval(deadline)

    # Find

    @overload
    async def search_capabilities(
        self,
        intent: str,
        limit: int | None = None,
        cursor: str | None = None,
        strategy: Strategy | None = None,
        filters: SearchFilters | None = None,
    ) -> SearchHits: ...

    @overload
    async def search_capabilities(
        self,
        intent: list[str],
        limit: int | None = None,
        cursor: str | None = None,
        strategy: Strategy | None = None,
        filters: SearchFilters | None = None,
    ) -> list[SearchHits]: ...

    async def search_capabilities(
        self,
        intent: str | list[str],
        limit: int | None = None,
        cursor: str | None = None,
        strategy: Strategy | None = None,
        filters: SearchFilters | None = None,
    ) -> SearchHits | list[SearchHits]:
        """Finds the capabilities that fit an intent, best first.

        With a list of up to 16 intents, returns one list of hits for each. When nothing fits, the list
        is empty, and its `nearest` has the closest capabilities. `cursor` is `next` of an earlier page.
        """
        options = without_none(limit=limit, cursor=cursor, strategy=strategy, filters=filters)
        if isinstance(intent, str):
            return SearchHits(await self._search({"intent": intent, **options}))
        response = await self._search({"intents": intent, **options})
        return [SearchHits(one) for one in response["responses"]]

    async def search_services(
        self,
        intent: str,
        limit: int | None = None,
        filters: SearchFilters | None = None,
    ) -> ServiceHits:
        """Finds the services whose capabilities fit an intent, best first."""
        options = without_none(limit=limit, filters=filters)
        return ServiceHits(await self._search({"intent": intent, "level": "services", **options}))

    async def _search(self, body: dict[str, Any]) -> Any:
        return await self._transport.call(post("search", body=body, repeatable=True))

    # Read

    async def get_capability(self, name: str, version: str | None = None) -> dict[str, Any]:
        """Returns the verified document of a version; without a version, of the latest.

        `version` may be a range such as `^1.2`. Raises `ChecksumMismatch` when the document has
        another checksum than it states.
        """
        return await self._read_document(name, version, None)

    async def verify_checksum(self, capability: AnyCapability) -> dict[str, Any]:
        """Computes the checksum of a capability on this side, and returns its document.

        The capability is a hit, a reference or a document. The document is fetched unless it is given.
        Raises `ChecksumMismatch` when the checksum is not the stated one, and `Drifted` when the document
        has another version than the wanted one, or not the words, permissions and inputs of the hit.
        """
        if isinstance(capability, Mapping) and _request.is_document(capability):
            document = dict(capability)
            _check_document(document, document.get("checksum"), compute_checksum(document))
            return document
        reference = _request.reference_of(capability)
        document = await self._read_document(
            reference["name"], reference.get("version"), reference.get("checksum")
        )
        if isinstance(capability, Mapping):
            compare_with_hit(capability, document)
        return document

    async def _read_document(self, name: str, version: str | None, expected: str | None) -> dict[str, Any]:
        content = await self._transport.send(get("capabilities", name, version or "latest"))
        document = parse_json(content)
        if not isinstance(document, dict):
            raise InvalidDocument("the registry has served something that is not a document")
        _check_document(document, expected or document.get("checksum"), compute_checksum(document))
        check_version(document, name, version)
        return document

    def list_capabilities(self, limit: int | None = None) -> AsyncStream[CapabilitySummary]:
        """Gives all capabilities with their latest versions. `limit` is the size of a page."""
        return self._transport.pages(get("capabilities"), "capabilities", "after", without_none(limit=limit))

    async def list_versions(self, name: str) -> CapabilityVersions:
        """Returns the versions of a capability."""
        return cast("CapabilityVersions", await self._transport.call(get("capabilities", name)))

    def list_services(self, limit: int | None = None) -> AsyncStream[Service]:
        """Gives the services that capabilities send requests to. `limit` is the size of a page."""
        return self._transport.pages(get("services"), "services", "after", without_none(limit=limit))

    def list_service_capabilities(
        self, host: str, limit: int | None = None
    ) -> AsyncStream[CapabilitySummary]:
        """Gives the capabilities of a service. `limit` is the size of a page."""
        return self._transport.pages(
            get("services", host), "capabilities", "after", without_none(limit=limit)
        )

    def list_changes(self, since: int | None = None, limit: int | None = None) -> AsyncStream[RegistryChange]:
        """Gives the changes of the registry after a number, in order. `limit` is the size of a page."""
        query = without_none(since=since, limit=limit)
        return self._transport.pages(get("changes"), "changes", "since", query)

    async def follow_changes(
        self, since: int | None = None, timeout: float | None = None
    ) -> AsyncStream[RegistryChange]:
        """Gives the changes of the registry as they happen. Resumes after a lost connection."""
        query = without_none(since=since)
        request = Request("GET", "/v1/changes", query, repeatable=True, streams=True)
        events = self._transport.events(request, None, lambda _: False, deadline_of(timeout))
        async with aclosing(events):
            async for event in events:
                yield members_of(event)

    async def get_graph(
        self,
        name: str,
        version: str | None = None,
        depth: int | None = None,
        impact: bool | None = None,
    ) -> CapabilityGraph:
        """Returns the capabilities that a capability uses, and that use it."""
        path = ("capabilities", name, *([version] if version else []), "graph")
        request = get(*path, query=without_none(depth=depth, impact=impact))
        return cast("CapabilityGraph", await self._transport.call(request))

    async def get_stats(self, name: str, version: str) -> CapabilityStats:
        """Returns the outcomes of the runs of a version."""
        request = get("capabilities", name, version, "stats")
        return cast("CapabilityStats", await self._transport.call(request))

    async def list_owners(self, name: str) -> OwnerList:
        """Returns the owners of a name."""
        return cast("OwnerList", await self._transport.call(get("capabilities", name, "owners")))

    async def get_index(self) -> IndexStatus:
        """Returns the state of the search index."""
        return cast("IndexStatus", await self._transport.call(get("index")))

    async def verify_stored(self, name: str, version: str | None = None) -> VerifyResponse:
        """Has the registry compute the checksum of its stored document again."""
        body = without_none(name=name, version=version)
        request = post("verify", body=body, repeatable=True)
        return cast("VerifyResponse", await self._transport.call(request))

    # Publish

    async def validate(self, document: Document) -> FindabilityReport:
        """Checks a document without publishing it, and reports the intents that would find it.

        Raises `InvalidDocument` with all errors of the document.
        """
        request = _request.post_document("findability", document=document)
        return cast("FindabilityReport", await self._transport.call(request))

    async def create_drafts(
        self,
        description: str,
        operations: Sequence[str] | None = None,
        server: str | None = None,
        prefix: str | None = None,
    ) -> DraftList:
        """Makes a document of each operation of an OpenAPI description, JSON or YAML text.

        Publishes nothing.
        """
        body = without_none(description=description, operations=operations, server=server, prefix=prefix)
        request = post("drafts", body=body, repeatable=True)
        return cast("DraftList", await self._transport.call(request))

    async def publish(self, document: Document) -> PublishResponse:
        """Publishes a document: YAML text, or an object. The same content again changes nothing."""
        request = _request.post_document("capabilities", document=document)
        return cast("PublishResponse", await self._transport.call(request))

    async def yank(self, name: str, version: str, *, force: bool = False) -> LifecycleResponse:
        """Hides a version from searches. A request for exactly this version still gets it.

        The registry refuses when published versions would break, except with `force`.
        """
        query = {"force": "true"} if force else None
        request = post("capabilities", name, version, "yank", query=query)
        return cast("LifecycleResponse", await self._transport.call(request))

    async def unyank(self, name: str, version: str) -> LifecycleResponse:
        """Shows a yanked version again."""
        return await self._change_version(name, version, "unyank")

    async def deprecate(
        self,
        name: str,
        version: str,
        message: str | None = None,
        successor: str | None = None,
        undo: bool | None = None,
    ) -> LifecycleResponse:
        """Marks a version as deprecated, with a message and a successor; `undo` removes the mark."""
        body = without_none(message=message, successor=successor, undo=undo)
        return await self._change_version(name, version, "deprecate", body)

    async def _change_version(
        self, name: str, version: str, change: str, body: Any = None
    ) -> LifecycleResponse:
        request = post("capabilities", name, version, change, body=body)
        return cast("LifecycleResponse", await self._transport.call(request))

    async def change_owners(
        self,
        name: str,
        *,
        add: str | None = None,
        remove: str | None = None,
        transfer: str | None = None,
    ) -> OwnerList:
        """Adds an owner of a name, removes one, or transfers the name: one of the three."""
        body = without_none(add=add, remove=remove, transfer=transfer)
        request = post("capabilities", name, "owners", body=body)
        return cast("OwnerList", await self._transport.call(request))

    async def forget_intents(self, name: str) -> ForgetResponse:
        """Removes the words by which a learning registry finds a capability."""
        request = delete("capabilities", name, "learned")
        return cast("ForgetResponse", await self._transport.call(request))

    # Run

    @overload
    async def plan(
        self,
        capability: TypedCapability[Inputs, Output],
        inputs: InputsFor[Inputs],
        session: str | None = None,
        preview: bool | None = None,
        lock: list[CapabilityRef] | None = None,
    ) -> AsyncPlan[Output]: ...

    @overload
    async def plan(
        self,
        capability: Capability,
        inputs: Mapping[str, Any] | None = None,
        session: str | None = None,
        preview: bool | None = None,
        lock: list[CapabilityRef] | None = None,
    ) -> AsyncPlan: ...

    async def plan(
        self,
        capability: AnyCapability,
        inputs: Given = None,
        session: str | None = None,
        preview: bool | None = None,
        lock: list[CapabilityRef] | None = None,
    ) -> AsyncPlan:
        """Shows what a run would do, and sends nothing to a service.

        With `preview` the guardian is asked about each step. `lock` has the only allowed versions of
        dependencies.
        """
        body = {
            **_request.reference_of(capability),
            **without_none(inputs=_request.values_of(inputs), session=session, preview=preview, lock=lock),
        }
        plan = AsyncPlan(self, await self._transport.call(post("plans", body=body, repeatable=True)))
        _check_version(plan.get("capability") or {}, _request.checksum_of(capability))
        return plan

    @overload
    async def run(
        self,
        capability: TypedCapability[Inputs, Output],
        inputs: InputsFor[Inputs],
        session: str | None = None,
        intent: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
        lock: list[CapabilityRef] | None = None,
        on_abort: OnAbort = "cancel",
    ) -> AsyncRun[Output]: ...

    @overload
    async def run(
        self,
        capability: Capability,
        inputs: Mapping[str, Any] | None = None,
        session: str | None = None,
        intent: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
        lock: list[CapabilityRef] | None = None,
        on_abort: OnAbort = "cancel",
    ) -> AsyncRun: ...

    async def run(
        self,
        capability: AnyCapability,
        inputs: Given = None,
        session: str | None = None,
        intent: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
        lock: list[CapabilityRef] | None = None,
        on_abort: OnAbort = "cancel",
    ) -> AsyncRun:
        """Runs a capability or a plan, and returns the finished run.

        Raises the error of the end of a run that did not succeed, or that waits for a person. With
        `wait=False`, returns the run as it begins. `intent` has the words of the search that led here.
        After the timeout, or when the call is aborted, the run is cancelled; with `on_abort="detach"` it
        goes on. `Interrupted` has it as `run`.
        """
        body = {
            **_request.start_of(capability, inputs, session, lock),
            **without_none(intent=intent),
        }
        request = post(
            "executions",
            body=body,
            headers={"Idempotency-Key": idempotency_key or _request.new_key()},
            repeatable=True,
        )
        return await self._start(request, capability, wait, timeout, on_abort)

    async def _start(
        self,
        request: Request,
        capability: AnyCapability,
        wait: bool,
        timeout: float | None,
        on_abort: OnAbort,
    ) -> AsyncRun:
        """Starts a run, and waits for its end. The response to a start comes at once."""
        deadline = deadline_of(timeout)
        wanted = _request.checksum_of(capability)

        async def start() -> AsyncRun:
            return AsyncRun(self, await self._transport.call(request))

        async def cancel(run: AsyncRun) -> None:
            if on_abort == "cancel":
                with suppress(A2SError):
                    await run.cancel()

        run = await async_complete(start, cancel)
        _check_version(run, wanted, run)
        return await run.finish(deadline, on_abort) if wait else run

    @overload
    async def trigger(
        self,
        event: TriggerEvent,
        capability: TypedCapability[Inputs, Output],
        inputs: InputsFor[Inputs],
        session: str | None = None,
        intent: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
        on_abort: OnAbort = "cancel",
    ) -> AsyncRun[Output]: ...

    @overload
    async def trigger(
        self,
        event: TriggerEvent,
        capability: Capability,
        inputs: Mapping[str, Any] | None = None,
        session: str | None = None,
        intent: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
        on_abort: OnAbort = "cancel",
    ) -> AsyncRun: ...

    async def trigger(
        self,
        event: TriggerEvent,
        capability: AnyCapability,
        inputs: Given = None,
        session: str | None = None,
        intent: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
        on_abort: OnAbort = "cancel",
    ) -> AsyncRun:
        """Runs a capability for an event, once for each event, and returns the run as `run` does."""
        execution = {
            **_request.start_of(capability, inputs, session),
            **without_none(intent=intent),
        }
        body = {"event": event, "execution": execution}
        # The event is the idempotency key.
        request = post("triggers", body=body, repeatable=True)
        return await self._start(request, capability, wait, timeout, on_abort)

    async def get_run(self, id: str) -> AsyncRun:
        """Returns a run."""
        return AsyncRun(self, await self._transport.call(get("executions", id)))

    async def _read_run(self, id: str, deadline: float | None) -> dict[str, Any]:
        """Reads a run that is waited for: a restart of A2S is no reason to give up."""
        content = await self._transport.send(get("executions", id), deadline, is_patient=True)
        return _request.read_object(content)

    async def list_runs(
        self,
        status: RunStatus | None = None,
        name: str | None = None,
        tenant: str | None = None,
        limit: int | None = None,
    ) -> AsyncStream[AsyncRun]:
        """Gives runs, newest first, without their steps. `limit` is the size of a page."""
        query = without_none(status=status, name=name, tenant=tenant, limit=limit)
        async for run in self._transport.pages(get("executions"), "executions", "before", query):
            yield AsyncRun(self, run)

    async def events(
        self, id: str, after: int | None = None, timeout: float | None = None
    ) -> AsyncStream[Event]:
        """Gives the events of a run until it has ended or waits, after the given one.

        Resumes after a lost connection, without gaps and without repetitions.
        """
        events = self._transport.events(_events_of(id), after, is_last, deadline_of(timeout))
        async with aclosing(events):
            async for event in events:
                yield members_of(event)

    async def _follow_run(
        self, id: str, after: int | None, deadline: float | None
    ) -> AsyncStream[dict[str, Any]]:
        """Gives the events of a run that is waited for: a restart of A2S is no reason to give up."""
        events = self._transport.events(_events_of(id), after, is_last, deadline, is_patient=True)
        async with aclosing(events):
            async for event in events:
                yield members_of(event)

    async def cancel_run(self, id: str) -> AsyncRun:
        """Cancels a run, and returns it as it is now."""
        return AsyncRun(self, await self._transport.call(post("executions", id, "cancel")))

    async def resume_run(
        self,
        id: str,
        decision: StepResolution | str,
        step: str | None = None,
        outputs: Mapping[str, Any] | None = None,
    ) -> AsyncRun:
        """Continues a run that waits: `repeat`, `skip`, or `set` with outputs."""
        body = without_none(decision=decision, step=step, outputs=outputs)
        request = post("executions", id, "resume", body=body)
        return AsyncRun(self, await self._transport.call(request))

    async def delete_run(self, id: str) -> None:
        """Deletes a run that has ended, with its events."""
        await self._transport.send(delete("executions", id))

    async def replay_run(self, id: str, against: Capability | None = None) -> ReplayResponse:
        """Repeats the steps of a run with the recorded responses, and returns the differences.

        `against` is another version, whose steps are used instead.
        """
        target = None if against is None else _request.reference_of(against)
        request = post("executions", id, "replay", body=without_none(against=target))
        return cast("ReplayResponse", await self._transport.call(request))

    async def list_exchanges(self, id: str) -> list[StepExchange]:
        """Returns the recorded requests and responses of a run, by step. Secret values are masked."""
        request = get("executions", id, "exchanges")
        return cast("list[StepExchange]", await self._transport.read_items(request, "exchanges"))

    # Decide

    async def list_approvals(self, status: str | None = None) -> list[Approval]:
        """Returns the approvals that the guardian knows. Needs the owner's token."""
        request = get("approvals", query=without_none(status=status))
        return cast("list[Approval]", await self._transport.read_items(request, "approvals"))

    async def get_approval(self, id: str) -> ApprovalStatus:
        """Returns an approval."""
        return cast("ApprovalStatus", await self._transport.call(get("approvals", id)))

    async def approve(self, id: str, decided_by: str | None = None, reason: str | None = None) -> Approval:
        """Approves a step that waits."""
        return await self._decide(id, "approve", decided_by, reason)

    async def reject(self, id: str, decided_by: str | None = None, reason: str | None = None) -> Approval:
        """Rejects a step that waits. Its run then ends with the status `denied`."""
        return await self._decide(id, "reject", decided_by, reason)

    async def _decide(self, id: str, decision: str, decided_by: str | None, reason: str | None) -> Approval:
        body = without_none(decided_by=decided_by, reason=reason)
        return cast("Approval", await self._transport.call(post("approvals", id, decision, body=body)))

    # Administer

    async def list_secrets(self) -> list[StoredCredential]:
        """Returns the stored credentials, without their values."""
        return cast("list[StoredCredential]", await self._transport.read_items(get("secrets"), "secrets"))

    async def set_secret(self, host: str, scheme: str, credential: Credential) -> StoredCredential:
        """Stores a credential for a host and a security scheme."""
        request = put("secrets", host, scheme, body=credential)
        return cast("StoredCredential", await self._transport.call(request))

    async def set_secret_users(self, host: str, scheme: str, users: CredentialUsers) -> StoredCredential:
        """Sets whose runs may use a credential, beside the owner's."""
        request = put("secrets", host, scheme, "users", body=users)
        return cast("StoredCredential", await self._transport.call(request))

    async def delete_secret(self, host: str, scheme: str) -> None:
        """Deletes a credential."""
        await self._transport.send(delete("secrets", host, scheme))

    async def list_state(
        self, session: str | None = None, audience: StateFor | None = None
    ) -> list[StateEntry]:
        """Returns the remembered values of a session, or those that stay."""
        request = get(*_state_path(session), query=without_none(**{"for": audience}))
        return cast("list[StateEntry]", await self._transport.read_items(request, "entries"))

    async def set_state(
        self,
        name: str,
        value: Any,
        session: str | None = None,
        audience: StateFor | None = None,
    ) -> StateEntry:
        """Remembers a value: for a session, or for all runs of the caller or of `everybody`."""
        query = without_none(**{"for": audience})
        request = put(*_state_path(session), name, body=value, query=query)
        return cast("StateEntry", await self._transport.call(request))

    async def delete_state(
        self, name: str, session: str | None = None, audience: StateFor | None = None
    ) -> None:
        """Forgets a remembered value."""
        query = without_none(**{"for": audience})
        await self._transport.send(delete(*_state_path(session), name, query=query))

    async def record_outcome(self, report: OutcomeReport) -> None:
        """Reports the outcome of a run to the registry."""
        await self._transport.send(post("outcomes", body=report))

    async def list_tokens(self) -> list[TokenEntry]:
        """Returns the tokens, without their values."""
        return cast("list[TokenEntry]", await self._transport.read_items(get("tokens"), "tokens"))

    async def create_token(
        self, name: str, scopes: Sequence[Scope], expires_in_s: int | None = None
    ) -> NewToken:
        """Creates a token. Its value is only in this response."""
        body = without_none(name=name, scopes=list(scopes), expires_in_s=expires_in_s)
        return cast("NewToken", await self._transport.call(post("tokens", body=body)))

    async def revoke_token(self, name: str) -> None:
        """Revokes a token."""
        await self._transport.send(delete("tokens", name))

    async def introspect_token(self, token: str) -> IntrospectionResponse:
        """Returns what a token permits."""
        request = post("tokens", "introspect", body={"token": token})
        return cast("IntrospectionResponse", await self._transport.call(request))

    def list_trust(self, limit: int | None = None) -> AsyncStream[TrustedVersion]:
        """Gives the checksums that the executor remembers. `limit` is the size of a page."""
        return self._transport.pages(get("trust"), "versions", "after", without_none(limit=limit))

    async def accept_trust(self, name: str, version: str, checksum: str) -> TrustedVersion:
        """Accepts another checksum of a version."""
        request = put("trust", name, version, body={"checksum": checksum})
        return cast("TrustedVersion", await self._transport.call(request))

    async def forget_trust(self, name: str, version: str) -> None:
        """Forgets the checksum of a version."""
        await self._transport.send(delete("trust", name, version))

    async def list_hosts(self) -> list[HostState]:
        """Returns the hosts that the executor has sent requests to, with their state."""
        return cast("list[HostState]", await self._transport.read_items(get("hosts"), "hosts"))

    async def count_usage(self, since: str | None = None, unit: UsageUnit | None = None) -> UsageReport:
        """Counts the runs since a time, by default of a day, in intervals of a unit, by default an hour."""
        request = get("usage", query=without_none(since=since, unit=unit))
        return cast("UsageReport", await self._transport.call(request))

    async def count_searches(self) -> SearchCounts:
        """Counts the searches of each hour, and those without a hit. Needs the owner's token."""
        return cast("SearchCounts", await self._transport.call(get("search-counts")))

    async def get_policy(self) -> GuardianPolicies:
        """Returns the policy of the guardian that is in force. Needs the owner's token."""
        return cast("GuardianPolicies", await self._transport.call(get("guardian", "policy")))

    def list_records(
        self,
        *,
        event: str | None = None,
        decision: str | None = None,
        tool: str | None = None,
        capability: str | None = None,
        rule: str | None = None,
        session: str | None = None,
        user: str | None = None,
        execution: str | None = None,
        run: str | None = None,
        since: str | None = None,
        differs: bool | None = None,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> AsyncStream[dict[str, Any]]:
        """Gives the records of the guardian's audit log, newest first. `limit` is the size of a page."""
        query = without_none(
            event=event,
            decision=decision,
            tool=tool,
            capability=capability,
            rule=rule,
            session=session,
            user=user,
            execution=execution,
            run=run,
            since=since,
            differs=differs,
            before=before,
            after=after,
            limit=limit,
        )
        return self._transport.pages(get("guardian", "records"), "records", "before", query)

    async def verify_log(self) -> LogVerification:
        """Has the guardian check its audit log: every record follows the one before it."""
        return cast("LogVerification", await self._transport.call(get("guardian", "verification")))

    async def try_policy(self, policy: str, last: int | None = None) -> PolicyTrial:
        """Tries a policy, YAML text, on the latest decisions of the guardian. Nothing changes."""
        request = post("guardian", "trials", body=without_none(policy=policy, last=last), repeatable=True)
        return cast("PolicyTrial", await self._transport.call(request))

    async def list_mirrors(self) -> list[MirroredRegistry]:
        """Returns the registries that this one has copies of."""
        return cast("list[MirroredRegistry]", await self._transport.read_items(get("mirrors"), "mirrors"))

    def read_audit(self, name: str | None = None, limit: int | None = None) -> AsyncStream[AuditEntry]:
        """Gives the records of the audit log, newest first. `limit` is the size of a page."""
        query = without_none(name=name, limit=limit)
        return self._transport.pages(get("audit"), "entries", "before", query)

    async def trim_audit(self, before: str) -> TrimAuditResponse:
        """Removes the records of the audit log before a time."""
        request = post("audit", "trim", body={"before": before})
        return cast("TrimAuditResponse", await self._transport.call(request))

    async def check_health(self) -> bool:
        """Returns true when the process lives, and raises otherwise."""
        await self._transport.send(Request("GET", "/healthz", repeatable=True))
        return True

    async def check_readiness(self) -> bool:
        """Returns true when the services can work, and raises `Busy` otherwise."""
        await self._transport.send(Request("GET", "/readyz", repeatable=True))
        return True

    # The agent

    async def ask_agent(
        self, request: Mapping[str, Any], timeout: float | None = None
    ) -> AsyncStream[AgentEvent]:
        """Gives the events of one turn of the agent; the last is `response`. See `AsyncA2SAgent`."""
        stream = self._transport.turn(post("agent", body=request, streams=True), timeout)
        async with aclosing(stream) as events:
            async for event in events:
                yield read_event(event)


def _events_of(id: str) -> Request:
    return Request("GET", _request.path("executions", id, "events"), repeatable=True, streams=True)


def _state_path(session: str | None) -> tuple[str, ...]:
    return ("state",) if session is None else ("sessions", session, "state")


def _check_document(document: Mapping[str, Any], stated: object, computed: str) -> None:
    """Raises `ChecksumMismatch` unless the stated checksum is the computed one."""
    if normalize_checksum(stated) != computed:
        raise ChecksumMismatch(
            f"{stated!r:.100}" if normalize_checksum(stated) is None else str(stated),
            computed,
            subject=f"{document.get('name')!r:.100} {document.get('version')!r:.40}",
        )


def _check_version(served: Mapping[str, Any], wanted: str | None, run: AsyncRun | None = None) -> None:
    """Raises `Drifted` when the executor has taken another content than the wanted one."""
    if wanted is not None and served.get("checksum") != wanted:
        raise Drifted(
            f"the executor has taken {served.get('checksum')!r:.100}, not {wanted}",
            hint="Do not trust this executor: it does not run what was asked for.",
            run=run,
        )
