/** Replays the exchanges that were recorded with the real server. `sdk/README.md` describes the format. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { A2SAgent, A2SError, A2SRegistry, SearchResult } from "@a2s/core";
import { collect, type Json, type Received, type Reply, ROOT, serve } from "./support.js";

const FOLDER = join(ROOT, "sdk/contract");
const FILES = readdirSync(FOLDER)
    .filter((name) => name.endsWith(".json") && name !== "errors.json")
    .map((name) => join(FOLDER, name));

function readRecordings(file: string): Json[] {
    return JSON.parse(readFileSync(file, "utf8"));
}

test("the contract", async (context) => {
    let count = 0;
    let good = 0;
    for (const recording of FILES.flatMap(readRecordings)) {
        count++;
        await context.test(recording.name, async (one) => {
            await replay(one, recording);
            good++;
        });
    }
    context.diagnostic(`contract: ${good} of ${count}`);
    assert.ok(count > 1);
});

// The cases of this SDK alone, which no recording has.
for (const example of readRecordings(join(import.meta.dirname, "../../tests/data/contract.json"))) {
    test(example.name, (context) => replay(context, example));
}

test("a request that differs is noticed", async (context) => {
    const recording = {
        call: "list_versions",
        arguments: { name: "A" },
        exchanges: [
            {
                request: { method: "GET", path: "/v1/capabilities/B" },
                response: { status: 200, body: {} },
            },
        ],
        result: {},
    };
    await assert.rejects(replay(context, recording), /GET \/v1\/capabilities\/A/);
});

async function replay(context: TestContext, recording: Json): Promise<void> {
    let exchanges: Json[] = [];
    const problems: string[] = [];
    const { url } = await serve(context, (received) => {
        const exchange = exchanges.shift();
        if (exchange === undefined) {
            problems.push(`${received.method} ${received.path} was not expected`);
            return { status: 418 };
        }
        problems.push(...differences(received, exchange.request));
        return replyOf(exchange.response, () => leaving.abort(new Error("the caller leaves")));
    });
    const leaving = new AbortController();
    const kept = { ...process.env };
    context.after(() => {
        process.env = kept;
    });
    for (const [name, value] of Object.entries<string>(recording.environment ?? {})) {
        process.env[name] = value.replace("{server}", url);
    }

    /** Makes a call on what an earlier call gave, and then the calls on its own result. */
    const play = async (receiver: unknown, { call, error: expected, ...rest }: Json): Promise<void> => {
        exchanges = [...(rest.exchanges ?? [])];
        let result: unknown;
        try {
            const args = rest.arguments ?? {};
            const leave = args.on_abort === undefined ? {} : { signal: leaving.signal };
            result = await makeCall(receiver ?? registryOf(url, recording), call, { ...args, ...leave });
        } catch (error) {
            result = error;
        }
        problems.push(...exchanges.map(({ request }) => `${request.method} ${request.path} was not sent`));
        assert.deepEqual(problems, [], String(result));
        if (expected !== undefined) {
            compareError(result, expected);
        } else if (result instanceof Error) {
            throw result;
        } else {
            assert.deepEqual(plain(result), rest.result ?? null);
        }
        for (const next of rest.then ?? []) {
            await play(result, next);
        }
    };
    await play(undefined, recording);
}

function registryOf(server: string, { settings = {} }: Json): A2SRegistry {
    const { url = server, token = "test-token", allow_insecure_tokens, idle_timeout } = settings;
    return new A2SRegistry(url, {
        token: token ?? undefined,
        allowInsecureTokens: allow_insecure_tokens,
        retry: { sleep: async () => {}, ...(idle_timeout && { idleTimeout: idle_timeout * 1000 }) },
    });
}

function differences(received: Received, expected: Json): string[] {
    const found: string[] = [];
    const line = `${received.method} ${received.path}`;
    if (line !== `${expected.method} ${expected.path}`) {
        found.push(`${line} is not ${expected.method} ${expected.path}`);
    }
    for (const [name, value] of Object.entries(expected.headers ?? {})) {
        const header = received.headers[name];
        if (value === "*" ? !header : header !== (value ?? undefined)) {
            found.push(`the header ${name} is ${header}, not ${value}`);
        }
    }
    if (expected.body !== undefined) {
        if (!isDeepStrictEqual(parse(received.body), expected.body)) {
            found.push(`the body is ${received.body}, not ${JSON.stringify(expected.body)}`);
        }
    } else if (received.body !== (expected.text ?? "")) {
        found.push(`the body is ${received.body}`);
    }
    return found;
}

function parse(text: string): unknown {
    return text === "" ? undefined : JSON.parse(text);
}

function replyOf({ status, headers, body, text, cut, stall, hold, pad }: Json, leave: () => void): Reply {
    const sent = text ?? (body === undefined ? "" : JSON.stringify(body));
    const held = hold ? leave : stall ? () => {} : undefined;
    return {
        status,
        headers,
        cut,
        body: sent.replace("(pad)", "x".repeat(pad ?? 0)),
        ...(held && { hold: held }),
    };
}

/** Compares the listed members of an error. */
function compareError(error: unknown, expected: Json): void {
    assert.ok(error instanceof A2SError, `no error: ${JSON.stringify(error)}`);
    assert.equal(error.name, error.constructor.name);
    const { retryAfter: retry_after = null, ...rest } = error as A2SError & { retryAfter?: number };
    const { message, code = null, run } = error;
    const members = plain({ ...rest, class: error.name, message, code, run: run?.id, retry_after });
    assert.ok(contains(members, expected), `${JSON.stringify(members)} has not ${JSON.stringify(expected)}`);
}

function contains(value: Json, part: Json): boolean {
    if (typeof part !== "object" || part === null) {
        return value === part;
    }
    if (Array.isArray(part) && value?.length !== part.length) {
        return false;
    }
    return Object.keys(part).every((name) => contains(value?.[name], part[name]));
}

/** Returns a result as JSON, in the form of the contract. */
function plain(result: unknown): Json {
    if (result instanceof SearchResult) {
        const { nearest, metadata, next } = result;
        const rest = nearest.length > 0 ? { nearest, metadata, next } : { metadata, next };
        return JSON.parse(JSON.stringify({ hits: [...result], ...rest }));
    }
    if (Array.isArray(result)) {
        return result.map(plain);
    }
    return JSON.parse(JSON.stringify(result ?? null));
}

async function makeCall(receiver: unknown, name: string, args: Json): Promise<unknown> {
    const method = camelCase(name);
    const options = Object.fromEntries(Object.entries(args).map(([key, value]) => [camelCase(key), value]));
    const result = CALLS[method]
        ? CALLS[method](receiver as A2SRegistry, args, options)
        : (receiver as Record<string, (options: Json) => unknown>)[method]?.(options);
    return isIterable(result) ? collect(result) : result;
}

function isIterable(value: unknown): value is AsyncIterable<unknown> {
    return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

function camelCase(name: string): string {
    return name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}

type Call = (registry: A2SRegistry, args: Json, options: Json) => unknown;

/** The calls that take more than options. */
const CALLS: Record<string, Call> = {
    searchCapabilities: (r, { intent }, { intent: _, ...options }) => r.searchCapabilities(intent, options),
    searchServices: (r, { intent }, { intent: _, ...options }) => r.searchServices(intent, options),
    getCapability: (r, { name, version }) => r.getCapability(name, version),
    verifyChecksum: (r, { capability }) => r.verifyChecksum(capability),
    verifyStored: (r, { name, version }) => r.verifyStored(name, version),
    listServiceCapabilities: (r, { host }, options) => r.listServiceCapabilities(host, options),
    listChanges: (r, { since }, options) => r.listChanges(since, options),
    listVersions: (r, { name }) => r.listVersions(name),
    getGraph: (r, { name }, options) => r.getGraph(name, options),
    getStats: (r, { name, version }) => r.getStats(name, version),
    listOwners: (r, { name }) => r.listOwners(name),
    validate: (r, { document }) => r.validate(document),
    createDrafts: (r, { description }, options) => r.createDrafts(description, options),
    publish: (r, { document }) => r.publish(document),
    yank: (r, { name, version }) => r.yank(name, version),
    unyank: (r, { name, version }) => r.unyank(name, version),
    deprecate: (r, { name, version }, options) => r.deprecate(name, version, options),
    changeOwners: (r, { name, ...change }) => r.changeOwners(name, change),
    forgetIntents: (r, { name }) => r.forgetIntents(name),
    plan: (r, { capability }, options) => r.plan(capability, options),
    run: (r, { capability, plan }, options) =>
        "plan" in r
            ? r.run(plan ?? capability, options)
            : (r as { run: (options: Json) => unknown }).run(options),
    trigger: (r, { event, capability }, options) => r.trigger(event, capability, options),
    getRun: (r, { id }) => r.getRun(id),
    cancelRun: (r, { id }) => r.cancelRun(id),
    resumeRun: (r, { id, decision }, options) => r.resumeRun(id, decision, options),
    resume: (r, { decision }, options) =>
        (r as unknown as { resume: (decision: string, options: Json) => unknown }).resume(decision, options),
    deleteRun: (r, { id }) => r.deleteRun(id),
    listExchanges: (r, { id }) => r.listExchanges(id),
    replayRun: (r, { id }, options) => r.replayRun(id, options),
    events: (r, { id }, options) => (id === undefined ? r.events(options) : r.events(id, options)),
    getApproval: (r, { id }) => r.getApproval(id),
    approve: (r, { id }, options) => r.approve(id, options),
    reject: (r, { id }, options) => r.reject(id, options),
    setSecret: (r, { host, scheme, credential }) => r.setSecret(host, scheme, credential),
    setSecretUsers: (r, { host, scheme, users }) => r.setSecretUsers(host, scheme, users),
    deleteSecret: (r, { host, scheme }) => r.deleteSecret(host, scheme),
    setState: (r, { name, value }, options) => r.setState(name, value, options),
    deleteState: (r, { name }, options) => r.deleteState(name, options),
    recordOutcome: (r, { report }) => r.recordOutcome(report),
    createToken: (r, { name, scopes, expires_in_s }) =>
        r.createToken(name, scopes, { expiresIn: expires_in_s }),
    revokeToken: (r, { name }) => r.revokeToken(name),
    introspectToken: (r, { token }) => r.introspectToken(token),
    acceptTrust: (r, { name, version, checksum }) => r.acceptTrust(name, version, checksum),
    forgetTrust: (r, { name, version }) => r.forgetTrust(name, version),
    trimAudit: (r, { before }) => r.trimAudit(before),
    tryPolicy: (r, { policy }, options) => r.tryPolicy(policy, options),
    handleRequest: (r, { query }, { onQuestion, onConsent, ...options }) => {
        const agent = new A2SAgent();
        agent.useRegistries([r]);
        const callbacks = {
            ...(onQuestion && { onQuestion: () => onQuestion.shift() }),
            ...(onConsent && { onConsent: () => onConsent.shift() }),
        };
        return agent.handleRequest(query, { ...options, ...callbacks });
    },
};
