/** A2S at one address: registry, executor, guardian and agent. */
import {
    type CapabilityDocument,
    checkDocument,
    isDocument,
    type Reference,
    readDocument,
    referenceTo,
} from "./checksum.js";
import { A2SError, Drifted, errorOfResponse, InvalidInput, NotReachable } from "./errors.js";
import { parseJson } from "./json.js";
import { isPlan, type OnAbort, Plan, type ResumeOptions, Run, type RunHost, startPlan } from "./run.js";
import { SearchResult } from "./search.js";
import { completeSettings, type RegistryOptions } from "./settings.js";
import { type ApiRequest, path, type RequestOptions, Transport } from "./transport.js";
import type { OptionsArgument, OutputOf } from "./typed.js";
import type {
    AgentEvent,
    AgentRequest,
    Approval,
    ApprovalStatus,
    AuditEntry,
    AuditPage,
    BatchSearchResponse,
    CapabilityGraph,
    CapabilityList,
    CapabilityRef,
    CapabilityStats,
    CapabilitySummary,
    CapabilityVersions,
    ChangePage,
    Credential,
    CredentialUsers,
    DraftList,
    DraftRequest,
    Event,
    ExecutionList,
    ExecutionRequest,
    FindabilityReport,
    ForgetResponse,
    GuardianPolicies,
    GuardianRecordList,
    HostState,
    IndexStatus,
    IntrospectionResponse,
    LifecycleResponse,
    LogVerification,
    MirroredRegistry,
    MirrorList,
    NewToken,
    OutcomeReport,
    OwnerList,
    OwnerUpdate,
    PlanResponse,
    PolicyTrial,
    PublishResponse,
    RegistryChange,
    ReplayResponse,
    ReplayTarget,
    Run as RunRecord,
    RunStatus,
    Scope,
    SearchCounts,
    SearchFilters,
    SearchHit,
    SearchRequest,
    SearchResponse,
    Service,
    ServiceCapabilities,
    ServiceList,
    ServiceSearchResponse,
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
    TrustList,
    UsageReport,
    UsageUnit,
    Values,
    VerifyResponse,
} from "./types.js";
import { compareWithHit } from "./versions.js";

/**
 * What names a capability: a hit, an entry of a list, a reference or a document; or a text such as
 * `GetCountry`, `GetCountry@1.0.0` or `GetCountry@1.0.0#sha256:…`.
 */
export type Capability = string | SearchHit | CapabilitySummary | Reference | CapabilityDocument;

/** The time for which an aborted caller waits for the response to a start, in milliseconds. */
const ABORT_GRACE = 1_000;

/** Options of a search. */
export interface SearchOptions extends RequestOptions {
    /** The largest number of hits, 1 to 100 (10). */
    limit?: number;
    /** `next` of the page before. */
    cursor?: string;
    /** Ranks the capabilities that fit: the name of a preset, weights, or a list to try in turn. */
    strategy?: Strategy;
    /** Excludes capabilities. */
    filters?: SearchFilters;
}

/** Options of lists that come in pages. */
export interface PageOptions extends RequestOptions {
    /** The largest number of items in one response. The iterator fetches as many as it needs. */
    limit?: number;
}

/** Options of a plan. */
export interface PlanOptions extends RequestOptions {
    /** The inputs by name. */
    inputs?: Values;
    /** The session whose remembered values are inputs. */
    session?: string;
    /** Asks the guardian about each step whose inputs are known. */
    preview?: boolean;
    /** The only versions of dependencies that may be used. */
    lock?: CapabilityRef[];
}

/** Options of a run. A plan has its inputs, its session and its lock already. */
export interface RunOptions extends RequestOptions {
    /** The inputs by name. */
    inputs?: Values;
    /** The session whose remembered values are inputs. */
    session?: string;
    /** The words of the search that led to the run. A registry may learn from them. */
    intent?: string;
    /** The only versions of dependencies that may be used. */
    lock?: CapabilityRef[];
    /** The same key gives the same run. Without it, each call has a new one. */
    idempotencyKey?: string;
    /** Whether to wait for the end of the run (true). */
    wait?: boolean;
    /** The fate of the run if the call is aborted: it is cancelled (`cancel`, the default), or goes on (`detach`). */
    onAbort?: OnAbort;
}

/** Options of events. */
export interface EventOptions extends RequestOptions {
    /** Leaves out the events up to this number. */
    after?: number;
}

/** Which remembered values are meant. Without a session, those that stay. */
export interface StateOptions extends RequestOptions {
    /** The session. */
    session?: string | undefined;
    /** Of those that stay: whether they are the caller's or everybody's. */
    for?: StateFor | undefined;
}

/** A2S at one address. Methods throw an {@link A2SError}. */
export class A2SRegistry {
    readonly #transport: Transport;
    /** The address. */
    readonly url: string;

    /**
     * Sends nothing.
     *
     * @param url the address. Without it: `A2S_URL`, or `http://127.0.0.1:8740`
     * @throws InvalidInput if the address is not valid
     */
    constructor(url?: string, options: RegistryOptions = {}) {
        const settings = completeSettings(url, options);
        this.#transport = new Transport(settings);
        this.url = settings.url;
    }

    // Find

    /** Finds capabilities that do what the intent says, in plain words. */
    searchCapabilities(intent: string, options?: SearchOptions): Promise<SearchResult>;
    /** Finds capabilities for each of up to 16 intents. Returns one result for each, in the same order. */
    searchCapabilities(intents: readonly string[], options?: SearchOptions): Promise<SearchResult[]>;
    async searchCapabilities(
        intent: string | readonly string[],
        options: SearchOptions = {},
    ): Promise<SearchResult | SearchResult[]> {
        if (typeof intent === "string") {
            const body = searchRequest({ intent }, options);
            return SearchResult.fromResponse(await this.#search<SearchResponse>(body, options));
        }
        const body = searchRequest({ intents: [...intent] }, options);
        const { responses } = await this.#search<BatchSearchResponse>(body, options);
        return responses.map((response) => SearchResult.fromResponse(response));
    }

    /** Finds services whose capabilities do what the intent says. */
    async searchServices(intent: string, options: SearchOptions = {}): Promise<ServiceSearchResponse> {
        return this.#search(searchRequest({ intent, level: "services" }, options), options);
    }

    #search<T>(json: SearchRequest, options: RequestOptions): Promise<T> {
        return this.#transport.call({ method: "POST", path: "/v1/search", json, repeatable: true }, options);
    }

    // Read

    /**
     * Returns the document of a version, or of the latest. Its checksum is computed on this side and compared
     * with the one that it states. To compare it with the one of a search, use {@link verifyChecksum}.
     */
    async getCapability(
        name: string,
        version?: string,
        options: RequestOptions = {},
    ): Promise<CapabilityDocument> {
        return this.#fetchDocument({ name, version: version ?? null }, options);
    }

    /**
     * Returns the document of a capability if it has the right checksum, which is computed on this side. For
     * a hit or a reference, the right one is theirs; for a document, or a reference without one, it is the
     * one that the document states. A document is not fetched.
     *
     * @throws ChecksumMismatch; Drifted for another version than the wanted one, and for a hit with other words,
     * permissions or inputs than its document
     */
    async verifyChecksum(capability: Capability, options: RequestOptions = {}): Promise<CapabilityDocument> {
        if (isDocument(capability)) {
            return checkDocument(capability);
        }
        const document = await this.#fetchDocument(await toReference(capability), options);
        if (typeof capability !== "string") {
            compareWithHit(capability, document);
        }
        return document;
    }

    async #fetchDocument(reference: Reference, options: RequestOptions): Promise<CapabilityDocument> {
        const { name, version } = reference;
        const request = get(path`/v1/capabilities/${name}/${version ?? "latest"}`);
        return readDocument(await this.#transport.text(request, options), reference);
    }

    /** Has the registry compute the checksum of its stored document. {@link verifyChecksum} trusts nobody. */
    async verifyStored(
        name: string,
        version?: string,
        options: RequestOptions = {},
    ): Promise<VerifyResponse> {
        return this.#transport.call({ ...post("/v1/verify", { name, version }), repeatable: true }, options);
    }

    /** Gives all capabilities, by name. */
    listCapabilities(options: PageOptions = {}): AsyncGenerator<CapabilitySummary, void, void> {
        return this.#pages("/v1/capabilities", options, "after", (page: CapabilityList) => [
            page.capabilities,
            page.next,
        ]);
    }

    /** Gives all services, by host. */
    listServices(options: PageOptions = {}): AsyncGenerator<Service, void, void> {
        return this.#pages("/v1/services", options, "after", (page: ServiceList) => [
            page.services,
            page.next,
        ]);
    }

    /** Gives the capabilities of a service. */
    listServiceCapabilities(
        host: string,
        options: PageOptions = {},
    ): AsyncGenerator<CapabilitySummary, void, void> {
        return this.#pages(path`/v1/services/${host}`, options, "after", (page: ServiceCapabilities) => [
            page.capabilities,
            page.next,
        ]);
    }

    /** Gives the changes of the registry after a number, up to now. */
    listChanges(since = 0, options: PageOptions = {}): AsyncGenerator<RegistryChange, void, void> {
        const query = { since };
        return this.#pages(
            "/v1/changes",
            options,
            "since",
            (page: ChangePage) => [page.changes, page.has_more ? page.next : undefined],
            query,
        );
    }

    /** Gives the changes of the registry after a number, and those to come, without an end. */
    followChanges(since = 0, options: RequestOptions = {}): AsyncGenerator<RegistryChange, void, void> {
        const request = { ...get("/v1/changes"), query: { since } };
        return this.#transport.follow(request, since, () => false, options);
    }

    /** Returns the versions of a capability. */
    async listVersions(name: string, options: RequestOptions = {}): Promise<CapabilityVersions> {
        return this.#transport.call(get(path`/v1/capabilities/${name}`), options);
    }

    /** Returns the capabilities that a capability uses, those that use it, and those that fit to it. */
    async getGraph(
        name: string,
        options: RequestOptions & { version?: string; depth?: number; impact?: boolean } = {},
    ): Promise<CapabilityGraph> {
        const { version, depth, impact } = options;
        const route =
            version === undefined
                ? path`/v1/capabilities/${name}/graph`
                : path`/v1/capabilities/${name}/${version}/graph`;
        return this.#transport.call({ ...get(route), query: { depth, impact } }, options);
    }

    /** Returns the outcomes of the runs of a version. */
    async getStats(name: string, version: string, options: RequestOptions = {}): Promise<CapabilityStats> {
        return this.#transport.call(get(path`/v1/capabilities/${name}/${version}/stats`), options);
    }

    /** Returns the owners of a name. */
    async listOwners(name: string, options: RequestOptions = {}): Promise<OwnerList> {
        return this.#transport.call(get(path`/v1/capabilities/${name}/owners`), options);
    }

    /** Returns the state of the search index. */
    async getIndex(options: RequestOptions = {}): Promise<IndexStatus> {
        return this.#transport.call(get("/v1/index"), options);
    }

    // Publish

    /** Checks a document, YAML text or an object, and reports how well its intents find it. Publishes nothing. */
    async validate(document: string | object, options: RequestOptions = {}): Promise<FindabilityReport> {
        return this.#transport.call(documentRequest("/v1/findability", document), options);
    }

    /** Makes a document of each operation of an OpenAPI description, JSON or YAML text. Publishes nothing. */
    async createDrafts(
        description: string,
        options: RequestOptions & Omit<DraftRequest, "description"> = {},
    ): Promise<DraftList> {
        const { operations, server, prefix } = options;
        const request = post("/v1/drafts", { description, operations, server, prefix });
        return this.#transport.call({ ...request, repeatable: true }, options);
    }

    /** Publishes a document, YAML text or an object. The same content again changes nothing. */
    async publish(document: string | object, options: RequestOptions = {}): Promise<PublishResponse> {
        return this.#transport.call(documentRequest("/v1/capabilities", document), options);
    }

    /**
     * Withdraws a version: searches do not find it any more. The registry refuses when published versions would
     * break, except with `force`.
     */
    async yank(
        name: string,
        version: string,
        options: RequestOptions & { force?: boolean } = {},
    ): Promise<LifecycleResponse> {
        const query = { force: options.force || undefined };
        return this.#transport.call(
            { ...post(path`/v1/capabilities/${name}/${version}/yank`), query },
            options,
        );
    }

    /** Takes a withdrawal back. */
    async unyank(name: string, version: string, options: RequestOptions = {}): Promise<LifecycleResponse> {
        return this.#transport.call(post(path`/v1/capabilities/${name}/${version}/unyank`), options);
    }

    /** Marks a version as deprecated, or takes that back with `undo`. */
    async deprecate(
        name: string,
        version: string,
        options: RequestOptions & { message?: string; successor?: string; undo?: boolean } = {},
    ): Promise<LifecycleResponse> {
        const { message, successor, undo } = options;
        const body = { message, successor, undo };
        return this.#transport.call(post(path`/v1/capabilities/${name}/${version}/deprecate`, body), options);
    }

    /** Adds or removes an owner of a name, or makes one the only owner. */
    async changeOwners(name: string, change: OwnerUpdate, options: RequestOptions = {}): Promise<OwnerList> {
        return this.#transport.call(post(path`/v1/capabilities/${name}/owners`, change), options);
    }

    /** Forgets the intents that the registry has learned for a name. */
    async forgetIntents(name: string, options: RequestOptions = {}): Promise<ForgetResponse> {
        return this.#transport.call(remove(path`/v1/capabilities/${name}/learned`), options);
    }

    // Run

    /** Returns what a run would do: its requests, hosts, versions and guardians. Sends nothing to a service. */
    plan<C extends Capability>(
        capability: C,
        ...options: OptionsArgument<C, PlanOptions>
    ): Promise<Plan<OutputOf<C>>>;
    async plan(capability: Capability, options: PlanOptions = {}): Promise<Plan> {
        const { inputs, session, preview, lock } = options;
        const body = { ...(await toReference(capability)), inputs, session, preview, lock };
        const request = { ...post("/v1/plans", body), repeatable: true };
        const plan = await this.#transport.call<PlanResponse>(request, options);
        checkVersion(plan.capability, body.checksum ?? undefined);
        return new Plan(this.#host, plan);
    }

    /**
     * Runs a capability or a plan, and returns the run when it has ended. If the signal is aborted before, the run
     * is cancelled, or goes on with `onAbort: "detach"`.
     *
     * @throws the error of the end of the run: Denied, NeedsApproval, OutcomeUnknown, NotReachable,
     * InvalidInput or RunFailed; Interrupted, which has the run, if the signal is aborted
     */
    run<C extends Capability | PlanResponse>(
        capability: C,
        ...options: OptionsArgument<C, RunOptions>
    ): Promise<Run<OutputOf<C>>>;
    async run(capability: Capability | PlanResponse, options: RunOptions = {}): Promise<Run> {
        const execution = await toExecution(capability, options);
        const request = post("/v1/executions", execution);
        request.headers = { "Idempotency-Key": options.idempotencyKey ?? newKey() };
        return this.#start(request, await wantedChecksum(capability), options);
    }

    /** Runs a capability because of an event, like {@link run}. The same event gives the same run. */
    trigger<C extends Capability>(
        event: TriggerEvent,
        capability: C,
        ...options: OptionsArgument<C, RunOptions>
    ): Promise<Run<OutputOf<C>>>;
    async trigger(event: TriggerEvent, capability: Capability, options: RunOptions = {}): Promise<Run> {
        const execution = await toExecution(capability, options);
        const request = post("/v1/triggers", { event, execution });
        return this.#start(request, await wantedChecksum(capability), options);
    }

    /** Starts a run, and waits for its end. The response to a start comes at once. */
    async #start(request: ApiRequest, wanted: string | undefined, options: RunOptions): Promise<Run> {
        const { signal, wait = true, onAbort = "cancel" } = options;
        signal?.throwIfAborted();
        // A start is not aborted: the run could have begun, without anybody who knows its id.
        const started = this.#callRun({ ...request, repeatable: true }, {});
        const run = await untilAborted(started, signal, (late) => onAbort === "cancel" && late.cancel());
        checkVersion(run, wanted, run);
        return wait || signal?.aborted ? run.own(onAbort, options, () => run.wait(options)) : run;
    }

    async #callRun(request: ApiRequest, options: RequestOptions): Promise<Run> {
        return new Run(this.#host, await this.#transport.call<RunRecord>(request, options));
    }

    get #host(): RunHost {
        return {
            registry: this,
            pause: (length, signal) => this.#transport.pause(length, signal),
            read: (id, options) => this.#transport.call(get(path`/v1/executions/${id}`), options, true),
            follow: (id, after, options) => this.#follow(id, after, options, true),
        };
    }

    /** Returns a run. */
    async getRun(id: string, options: RequestOptions = {}): Promise<Run> {
        return this.#callRun(get(path`/v1/executions/${id}`), options);
    }

    /** Gives the runs, newest first. Only administrators may name a tenant. */
    listRuns(
        options: PageOptions & { status?: RunStatus; name?: string; tenant?: string } = {},
    ): AsyncGenerator<Run, void, void> {
        const { status, name, tenant } = options;
        return this.#pages(
            "/v1/executions",
            options,
            "before",
            (page: ExecutionList) => [page.executions.map((run) => new Run(this.#host, run)), page.next],
            { status, name, tenant },
        );
    }

    /** Cancels a run. It ends when its requests have ended. */
    async cancelRun(id: string, options: RequestOptions = {}): Promise<Run> {
        return this.#callRun(post(path`/v1/executions/${id}/cancel`), options);
    }

    /** Continues a run that waits, with the decision of a person about a request whose effect is not known. */
    async resumeRun(id: string, decision: StepResolution, options: ResumeOptions = {}): Promise<Run> {
        const { step, outputs } = options;
        return this.#callRun(post(path`/v1/executions/${id}/resume`, { step, decision, outputs }), options);
    }

    /** Deletes a finished run with its events. */
    async deleteRun(id: string, options: RequestOptions = {}): Promise<void> {
        await this.#transport.text(remove(path`/v1/executions/${id}`), options);
    }

    /** Repeats a run with its recorded responses, against another version if one is given. Sends nothing to a service. */
    async replayRun(
        id: string,
        options: RequestOptions & { against?: ReplayTarget } = {},
    ): Promise<ReplayResponse> {
        const { against } = options;
        return this.#transport.call(post(path`/v1/executions/${id}/replay`, { against }), options);
    }

    /** Returns the recorded requests and responses of a run, by step. Secret values are masked. */
    async listExchanges(id: string, options: RequestOptions = {}): Promise<StepExchange[]> {
        const request = get(path`/v1/executions/${id}/exchanges`);
        return (await this.#transport.call<{ exchanges: StepExchange[] }>(request, options)).exchanges;
    }

    /**
     * Gives the events of a run as they happen, until it has ended or waits. After a lost connection it
     * continues without a gap.
     */
    events(id: string, options: EventOptions = {}): AsyncGenerator<Event, void, void> {
        return this.#follow(id, options.after ?? 0, options, false);
    }

    #follow(
        id: string,
        after: number,
        options: RequestOptions,
        isPatient: boolean,
    ): AsyncGenerator<Event, void, void> {
        return this.#transport.follow<Event>(
            get(path`/v1/executions/${id}/events`),
            after,
            (message) => message.event === "run_finished" || message.event === "run_waiting",
            options,
            isPatient,
        );
    }

    // Decide

    /** Returns the approvals that the guardian knows. Needs the owner's token of the guardian. */
    async listApprovals(options: RequestOptions & { status?: string } = {}): Promise<Approval[]> {
        const request = { ...get("/v1/approvals"), query: { status: options.status } };
        return (await this.#transport.call<{ approvals: Approval[] }>(request, options)).approvals;
    }

    /** Returns an approval. */
    async getApproval(id: string, options: RequestOptions = {}): Promise<ApprovalStatus> {
        return this.#transport.call(get(path`/v1/approvals/${id}`), options);
    }

    /** Approves what a run waits for. */
    async approve(id: string, options: DecisionOptions = {}): Promise<Approval> {
        return this.#transport.call(post(path`/v1/approvals/${id}/approve`, decisionOf(options)), options);
    }

    /** Rejects what a run waits for. */
    async reject(id: string, options: DecisionOptions = {}): Promise<Approval> {
        return this.#transport.call(post(path`/v1/approvals/${id}/reject`, decisionOf(options)), options);
    }

    // Administer

    /** Returns the stored credentials, without their values. */
    async listSecrets(options: RequestOptions = {}): Promise<StoredCredential[]> {
        const response = await this.#transport.call<{ secrets: StoredCredential[] }>(
            get("/v1/secrets"),
            options,
        );
        return response.secrets;
    }

    /** Stores a credential for a host and a security scheme. */
    async setSecret(
        host: string,
        scheme: string,
        credential: Credential,
        options: RequestOptions = {},
    ): Promise<StoredCredential> {
        return this.#transport.call(put(path`/v1/secrets/${host}/${scheme}`, credential), options);
    }

    /** Says whose runs may use a credential. */
    async setSecretUsers(
        host: string,
        scheme: string,
        users: CredentialUsers,
        options: RequestOptions = {},
    ): Promise<StoredCredential> {
        return this.#transport.call(put(path`/v1/secrets/${host}/${scheme}/users`, users), options);
    }

    /** Deletes a credential. */
    async deleteSecret(host: string, scheme: string, options: RequestOptions = {}): Promise<void> {
        await this.#transport.text(remove(path`/v1/secrets/${host}/${scheme}`), options);
    }

    /** Returns the remembered values. */
    async listState(options: StateOptions = {}): Promise<StateEntry[]> {
        const request = stateRequest("GET", undefined, options);
        return (await this.#transport.call<{ entries: StateEntry[] }>(request, options)).entries;
    }

    /** Remembers a value, which is JSON. */
    async setState(name: string, value: unknown, options: StateOptions = {}): Promise<StateEntry> {
        const request = { ...stateRequest("PUT", name, options), json: value };
        return this.#transport.call(request, options);
    }

    /** Forgets a value. */
    async deleteState(name: string, options: StateOptions = {}): Promise<void> {
        await this.#transport.text(stateRequest("DELETE", name, options), options);
    }

    /** Reports the outcome of a run to the registry. */
    async recordOutcome(report: OutcomeReport, options: RequestOptions = {}): Promise<void> {
        await this.#transport.text(post("/v1/outcomes", report), options);
    }

    /** Returns the tokens, without their values. */
    async listTokens(options: RequestOptions = {}): Promise<TokenEntry[]> {
        return (await this.#transport.call<{ tokens: TokenEntry[] }>(get("/v1/tokens"), options)).tokens;
    }

    /** Makes a token, which is returned once. `expiresIn` is in seconds. */
    async createToken(
        name: string,
        scopes: Scope[],
        options: RequestOptions & { expiresIn?: number } = {},
    ): Promise<NewToken> {
        const body = { name, scopes, expires_in_s: options.expiresIn };
        return this.#transport.call(post("/v1/tokens", body), options);
    }

    /** Revokes a token. */
    async revokeToken(name: string, options: RequestOptions = {}): Promise<void> {
        // A repetition could revoke a newer token of this name.
        await this.#transport.text({ ...remove(path`/v1/tokens/${name}`), repeatable: false }, options);
    }

    /** Returns what a token permits (RFC 7662). */
    async introspectToken(token: string, options: RequestOptions = {}): Promise<IntrospectionResponse> {
        return this.#transport.call(post("/v1/tokens/introspect", { token }), options);
    }

    /** Gives the checksums that the executor remembers for the versions that it has run. */
    listTrust(options: PageOptions = {}): AsyncGenerator<TrustedVersion, void, void> {
        return this.#pages("/v1/trust", options, "after", (page: TrustList) => [page.versions, page.next]);
    }

    /** Has the executor accept another checksum of a version. */
    async acceptTrust(
        name: string,
        version: string,
        checksum: string,
        options: RequestOptions = {},
    ): Promise<TrustedVersion> {
        return this.#transport.call(put(path`/v1/trust/${name}/${version}`, { checksum }), options);
    }

    /** Has the executor forget the checksum of a version. */
    async forgetTrust(name: string, version: string, options: RequestOptions = {}): Promise<void> {
        await this.#transport.text(remove(path`/v1/trust/${name}/${version}`), options);
    }

    /** Returns the hosts to which the executor sends requests. */
    async listHosts(options: RequestOptions = {}): Promise<HostState[]> {
        return (await this.#transport.call<{ hosts: HostState[] }>(get("/v1/hosts"), options)).hosts;
    }

    /** Counts the runs since a time, by default 24 hours ago, in intervals of a unit, by default an hour. */
    async countUsage(
        options: RequestOptions & { since?: Date | string; unit?: UsageUnit } = {},
    ): Promise<UsageReport> {
        const { since, unit } = options;
        const query = { since: since instanceof Date ? since.toISOString() : since, unit };
        return this.#transport.call({ ...get("/v1/usage"), query }, options);
    }

    /** Counts the searches of each hour, and those without a hit. Needs the owner's token. */
    async countSearches(options: RequestOptions = {}): Promise<SearchCounts> {
        return this.#transport.call(get("/v1/search-counts"), options);
    }

    /** Returns the policy of the guardian that is in force. Needs the owner's token. */
    async getPolicy(options: RequestOptions = {}): Promise<GuardianPolicies> {
        return this.#transport.call(get("/v1/guardian/policy"), options);
    }

    /** Gives the records of the guardian's audit log, newest first. Needs the owner's token. */
    listRecords(options: PageOptions & GuardianRecordFilter = {}): AsyncGenerator<Values, void, void> {
        const { signal: _signal, limit: _limit, ...filter } = options;
        return this.#pages(
            "/v1/guardian/records",
            options,
            "before",
            (page: GuardianRecordList) => [page.records, page.next],
            { ...filter },
        );
    }

    /** Has the guardian check its audit log: every record follows the one before it. */
    async verifyLog(options: RequestOptions = {}): Promise<LogVerification> {
        return this.#transport.call(get("/v1/guardian/verification"), options);
    }

    /** Tries a policy, YAML text, on the latest decisions of the guardian. Nothing changes. */
    async tryPolicy(policy: string, options: RequestOptions & { last?: number } = {}): Promise<PolicyTrial> {
        const request = post("/v1/guardian/trials", { policy, last: options.last });
        return this.#transport.call({ ...request, repeatable: true }, options);
    }

    /** Returns the registries that this one has copies of. */
    async listMirrors(options: RequestOptions = {}): Promise<MirroredRegistry[]> {
        return (await this.#transport.call<MirrorList>(get("/v1/mirrors"), options)).mirrors;
    }

    /** Gives the entries of the registry's audit log, newest first. */
    readAudit(
        options: PageOptions & { before?: number; name?: string } = {},
    ): AsyncGenerator<AuditEntry, void, void> {
        const { before, name } = options;
        return this.#pages("/v1/audit", options, "before", (page: AuditPage) => [page.entries, page.next], {
            before,
            name,
        });
    }

    /** Deletes the entries of the audit log before a time. */
    async trimAudit(before: Date | string, options: RequestOptions = {}): Promise<TrimAuditResponse> {
        const time = typeof before === "string" ? before : before.toISOString();
        return this.#transport.call(post("/v1/audit/trim", { before: time }), options);
    }

    /** Returns true if the process lives, and throws otherwise. */
    async checkHealth(options: RequestOptions = {}): Promise<true> {
        await this.#transport.text(get("/healthz"), options);
        return true;
    }

    /** Returns true if the services can work, and throws otherwise. */
    async checkReadiness(options: RequestOptions = {}): Promise<true> {
        await this.#transport.text(get("/readyz"), options);
        return true;
    }

    /** Gives the events of one turn of the agent. The last one is the response. `A2SAgent` replies to questions. */
    async *askAgent(
        request: AgentRequest,
        options: RequestOptions = {},
    ): AsyncGenerator<AgentEvent, void, void> {
        for await (const { event, data } of this.#transport.stream(post("/v1/agent", request), options)) {
            const value = parseEvent(data);
            if (event === "problem") {
                throw errorOfResponse(statusOf(value), value);
            }
            yield value as AgentEvent;
            if (event === "response") {
                return;
            }
        }
        throw new NotReachable("the agent has ended its turn without a response");
    }

    /** Gives the items of all pages. `read` returns the items of a page and the cursor of the next one. */
    async *#pages<P, T>(
        route: string,
        options: PageOptions,
        parameter: string,
        read: (page: P) => [items: T[], next: string | number | null | undefined],
        query: ApiRequest["query"] = {},
    ): AsyncGenerator<T, void, void> {
        let cursor = query[parameter];
        for (;;) {
            const request = { ...get(route), query: { ...query, limit: options.limit, [parameter]: cursor } };
            const [items, next] = read(await this.#transport.call<P>(request, options));
            yield* items;
            if (next === undefined || next === null) {
                return;
            }
            if (next === cursor) {
                throw new A2SError("the next page is the same one");
            }
            cursor = next;
        }
    }
}

/** Options of a decision about an approval. */
/** The records of the guardian's audit log that are wanted. */
export interface GuardianRecordFilter {
    event?: string;
    decision?: string;
    /** A part of the name of a tool. */
    tool?: string;
    capability?: string;
    rule?: string;
    session?: string;
    /** A user, or the token that acts for one. */
    user?: string;
    execution?: string;
    run?: string;
    /** The earliest time. */
    since?: string;
    /** Set for decisions that the shadow policy would have made differently. */
    differs?: boolean;
    /** Only records with a smaller number. */
    before?: number;
    /** Only records with a larger number. */
    after?: number;
}

export interface DecisionOptions extends RequestOptions {
    /** The person who decides. */
    decidedBy?: string;
    /** The reason, in words. */
    reason?: string;
}

function decisionOf({ decidedBy, reason }: DecisionOptions): object {
    return { decided_by: decidedBy, reason };
}

function searchRequest(request: SearchRequest, options: SearchOptions): SearchRequest {
    const { signal: _, ...rest } = options;
    return { ...rest, ...request };
}

function get(route: string): ApiRequest {
    return { method: "GET", path: route };
}

function post(route: string, json?: unknown): ApiRequest {
    return { method: "POST", path: route, json };
}

function put(route: string, json: unknown): ApiRequest {
    return { method: "PUT", path: route, json };
}

function remove(route: string): ApiRequest {
    return { method: "DELETE", path: route };
}

function documentRequest(route: string, document: string | object): ApiRequest {
    const body = typeof document === "string" ? { yaml: document } : { json: document };
    return { method: "POST", path: route, repeatable: true, ...body };
}

function stateRequest(
    method: ApiRequest["method"],
    name: string | undefined,
    { session, for: audience }: StateOptions,
): ApiRequest {
    const folder = session === undefined ? "/v1/state" : path`/v1/sessions/${session}/state`;
    const route = name === undefined ? folder : folder + path`/${name}`;
    return { method, path: route, query: { for: audience } };
}

async function toExecution(
    capability: Capability | PlanResponse,
    options: RunOptions,
): Promise<ExecutionRequest> {
    const { inputs, session, intent, lock } = options;
    const start = isPlan(capability)
        ? startPlan(capability)
        : { ...(await toReference(capability)), ...given({ inputs, session, lock }) };
    return { ...start, ...given({ intent }) };
}

/**
 * Waits for work that is not aborted. After an abort it waits for a second more; if the work ends still later, it is
 * undone.
 */
async function untilAborted<T>(
    work: Promise<T>,
    signal: AbortSignal | undefined,
    undo: (done: T) => unknown,
): Promise<T> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let leave = () => {};
    const left = new Promise<never>((_, reject) => {
        leave = () => {
            timer = setTimeout(() => {
                work.then(undo).catch(() => undefined);
                reject(signal?.reason);
            }, ABORT_GRACE);
        };
    });
    signal?.addEventListener("abort", leave, { once: true });
    try {
        return await Promise.race([work, left]);
    } finally {
        clearTimeout(timer);
        signal?.removeEventListener("abort", leave);
    }
}

/** Returns the checksum that a run must have, if the caller has named one. */
async function wantedChecksum(capability: Capability | PlanResponse): Promise<string | undefined> {
    const named = isPlan(capability) ? capability.capability : await toReference(capability);
    return named.checksum ?? undefined;
}

/** Throws `Drifted` when the executor has taken another content than the wanted one. */
function checkVersion(taken: { checksum?: string | null }, wanted: string | undefined, run?: Run): void {
    if (wanted && taken?.checksum !== wanted && taken?.checksum !== `sha256:${wanted}`) {
        throw new Drifted(`the executor has taken ${taken?.checksum}, not ${wanted}`, {
            hint: "Do not trust this executor: it does not run what was asked for.",
            run,
        });
    }
}

/** Returns the reference to what names a capability. */
export async function toReference(capability: Capability): Promise<Reference> {
    if (typeof capability === "string") {
        return parseReference(capability);
    }
    if (isDocument(capability)) {
        return referenceTo(capability);
    }
    const { name, version, checksum } = capability;
    // What a registry has found must be pinned: without a checksum, any content would do.
    if ("description" in capability && (!version || !checksum)) {
        throw new InvalidInput(`\`${name}\` was found without a version or a checksum`);
    }
    return { name, ...given({ version: version ?? undefined, checksum: checksum ?? undefined }) };
}

/** Parses `NAME`, `NAME@VERSION` or `NAME@VERSION#CHECKSUM`. */
export function parseReference(text: string): Reference {
    const parts = /^([^@#]+)(?:@([^@#]+)(?:#([^@#]+))?)?$/.exec(text);
    if (parts === null) {
        throw new InvalidInput(`${JSON.stringify(text)} does not name a capability`, {
            hint: "Write NAME, NAME@VERSION or NAME@VERSION#CHECKSUM.",
        });
    }
    const [, name = "", version, checksum] = parts;
    return { name, ...given({ version, checksum }) };
}

/** Returns the members that have a value. */
function given<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
    return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;
}

function newKey(): string {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function parseEvent(data: string): unknown {
    try {
        return parseJson(data);
    } catch {
        throw new A2SError("an event of the agent cannot be read");
    }
}

function statusOf(problem: unknown): number {
    const status = (problem as { status?: unknown } | null)?.status;
    return typeof status === "number" ? status : 500;
}
