import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import {
    A2SAgent,
    A2SError,
    A2SRegistry,
    Busy,
    CapabilityExecutor,
    computeChecksum,
    Drifted,
    InvalidInput,
    NotFound,
    NotReachable,
    StateStore,
} from "@a2s/core";
import { collect, type Json, json, type Reply, registryAt, serve } from "./support.js";

const RUN = { id: "r1", name: "A", version: "1.0.0", checksum: "sha256:0", started_at: "", steps: [] };

function withEnvironment(context: TestContext, values: Record<string, string | undefined>): void {
    for (const [name, value] of Object.entries(values)) {
        const before = process.env[name];
        setVariable(name, value);
        context.after(() => setVariable(name, before));
    }
}

function setVariable(name: string, value: string | undefined): void {
    if (value === undefined) {
        delete process.env[name];
    } else {
        process.env[name] = value;
    }
}

test("the token comes from the argument, the environment or the file", async (context) => {
    const { url, received } = await serve(context, () => json({ hosts: [] }));
    const folder = mkdtempSync(join(tmpdir(), "a2s-"));
    context.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, "token"), "from-file\n");
    withEnvironment(context, { A2S_TOKEN: "from-environment", A2S_DATA_DIR: folder, A2S_URL: url });

    await new A2SRegistry(undefined, { token: "from-argument", onBehalfOf: "ann" }).listHosts();
    assert.equal(received[0]?.headers["a2s-on-behalf-of"], "ann");
    await new A2SRegistry().listHosts();
    delete process.env["A2S_TOKEN"];
    await new A2SRegistry().listHosts();
    process.env["A2S_DATA_DIR"] = join(folder, "none");
    await new A2SRegistry().listHosts();
    assert.deepEqual(
        received.map(({ headers }) => headers.authorization),
        ["Bearer from-argument", "Bearer from-environment", "Bearer from-file", undefined],
    );
});

test("the token of the file goes to this machine only", async (context) => {
    const folder = mkdtempSync(join(tmpdir(), "a2s-"));
    context.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, "token"), "secret");
    withEnvironment(context, { A2S_TOKEN: undefined, A2S_DATA_DIR: folder });
    const seen: Json[] = [];
    const fetch: typeof globalThis.fetch = async (_, init) => {
        seen.push((init?.headers as Record<string, string>)["Authorization"]);
        return new Response('{"hosts": []}');
    };
    for (const host of ["127.0.0.1", "localhost", "[::1]", "127.1.2.3"]) {
        await new A2SRegistry(`http://${host}:1`, { fetch }).listHosts();
    }
    for (const host of ["127.0.0.1.example.com", "10.0.0.1", "localhost.example", "[::2]"]) {
        await new A2SRegistry(`http://${host}:1`, { fetch }).listHosts();
    }
    assert.deepEqual(seen, [...Array(4).fill("Bearer secret"), ...Array(4).fill(undefined)]);
});

test("addresses that are not valid are refused at once", () => {
    for (const url of ["", "example.com", "ftp://example.com", "http://", "http://me:x@example.com"]) {
        assert.throws(() => new A2SRegistry(url), InvalidInput, url);
    }
    assert.equal(new A2SRegistry("http://a.example/x/?q#f").url, "http://a.example/x");
});

test("names cannot leave their place in an address", async (context) => {
    const { url, received } = await serve(context, () => json({}));
    const registry = registryAt(url);
    for (const name of ["", ".", "..", "\ud83d", undefined as unknown as string]) {
        await assert.rejects(registry.listVersions(name), InvalidInput);
    }
    await registry.listVersions("a/../b?c#d%2e\u00e9");
    await registry.getCapability("x y", "1.0.0").catch(() => undefined);
    assert.deepEqual(
        received.map(({ path }) => path),
        ["/v1/capabilities/a%2F..%2Fb%3Fc%23d%252e%C3%A9", "/v1/capabilities/x%20y/1.0.0"],
    );
});

test("headers have visible characters only", async () => {
    const registry = new A2SRegistry("http://127.0.0.1:1", { token: "a\r\nb: c" });
    await assert.rejects(registry.listHosts(), InvalidInput);
});

test("pauses follow Retry-After, and double without it", async (context) => {
    const replies: Reply[] = [
        json({}, 503, { "retry-after": "7" }),
        json({}, 429),
        { cut: true },
        json({ hosts: [] }),
        json({}, 503, { "retry-after": "61" }),
    ];
    const { url, received } = await serve(context, () => replies.shift() as Reply);
    const pauses: number[] = [];
    const sleep = async (pause: number) => void pauses.push(pause);
    const registry = new A2SRegistry(url, { retry: { attempts: 4, pause: 100, sleep } });
    await registry.listHosts();
    assert.equal(pauses.shift(), 7000);
    // Without `Retry-After`, a pause is twice the one before, give or take 25 %.
    for (const even of [200, 400]) {
        const pause = pauses.shift() ?? 0;
        assert.ok(pause >= even * 0.75 && pause <= even * 1.25, String(pause));
    }
    await assert.rejects(registry.listHosts(), (error) => error instanceof Busy && error.retryAfter === 61);
    assert.equal(received.length, 5);
});

test("a request that is not safe is not repeated after a lost connection", async (context) => {
    const { url, received } = await serve(context, () => ({}));
    const registry = registryAt(url);
    for (const call of [
        () => registry.approve("a"),
        () => registry.reject("a"),
        () => registry.cancelRun("a"),
        () => registry.resumeRun("a", "skip"),
        () => registry.createToken("a", ["publish"]),
        () => registry.revokeToken("a"),
        () => collect(registry.askAgent({ message: "a" })),
    ]) {
        received.length = 0;
        await assert.rejects(call, NotReachable);
        assert.equal(received.length, 1, String(call));
    }
    for (const call of [
        () => registry.searchCapabilities("a"),
        () => registry.plan("A"),
        () => registry.run("A"),
        () => registry.trigger({ type: "t", id: "1" }, "A"),
        () => registry.publish("a: 1"),
        () => registry.validate("a: 1"),
        () => registry.verifyStored("A"),
        () => registry.setState("a", 1),
        () => registry.deleteRun("a"),
        () => collect(registry.events("a")),
    ]) {
        received.length = 0;
        await assert.rejects(call, NotReachable);
        assert.equal(received.length, 3, String(call));
    }
    const keys = new Set<unknown>();
    for (const inputs of [{}, {}]) {
        received.length = 0;
        await assert.rejects(registry.run("A", { inputs }));
        keys.add(received[0]?.headers["idempotency-key"]);
        assert.equal(new Set(received.map(({ headers }) => headers["idempotency-key"])).size, 1);
    }
    assert.equal(keys.size, 2);
});

test("a request has a time limit, and is not tried again after it", async (context) => {
    const { url, received } = await serve(context, () => new Promise<Reply>(() => {}));
    const registry = registryAt(url, { timeout: 1 });
    await assert.rejects(registry.listHosts(), (error) => {
        return error instanceof NotReachable && /within 1 ms/.test(error.message);
    });
    assert.ok(received.length <= 1);
});

test("a call can be cancelled", async (context) => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const { url } = await serve(context, () => {
        controller.abort(reason);
        return new Promise<Reply>(() => {});
    });
    const { signal } = controller;
    await assert.rejects(registryAt(url).run("A", { signal }), reason);
    await assert.rejects(registryAt(url).listHosts({ signal }), reason);
    await assert.rejects(collect(registryAt(url).events("a", { signal })), reason);
});

test("a pause can be cancelled", async (context) => {
    const { url } = await serve(context, () => json({}, 503, { "retry-after": "50" }));
    const controller = new AbortController();
    const registry = new A2SRegistry(url);
    const call = registry.listHosts({ signal: controller.signal });
    const reason = new Error("enough");
    setImmediate(() => controller.abort(reason));
    await assert.rejects(call, reason);
});

test("responses are bounded", async () => {
    const chunk = new Uint8Array(1024 * 1024);
    let sent = 0;
    const fetch: typeof globalThis.fetch = async () =>
        new Response(
            new ReadableStream({
                pull(controller) {
                    sent++;
                    controller.enqueue(chunk);
                },
            }),
        );
    await assert.rejects(new A2SRegistry("http://127.0.0.1:1", { fetch }).listHosts(), /67108864 bytes/);
    assert.ok(sent < 70, String(sent));
});

test("events are bounded", async (context) => {
    const long = "x".repeat(65 * 1024 * 1024);
    for (const body of [
        `id: 1\ndata: "${long}"\n\n`,
        `id: 1\n${`data: ${"y".repeat(1_000_000)}\n`.repeat(68)}\n`,
        `id: 1\ndata: ${long}`,
    ]) {
        const { url } = await serve(context, () => ({ status: 200, body }));
        await assert.rejects(collect(registryAt(url).events("a")), (error) => {
            return error instanceof A2SError && !(error instanceof NotReachable);
        });
    }
});

test("a stream continues behind the last event", async (context) => {
    const stream = (...events: Json[]): string =>
        events
            .map(([id, type]) => `id: ${id}\r\nevent: ${type}\r\ndata: {"seq":\r\ndata: ${id}}\r\n\r\n`)
            .join("");
    const replies: Reply[] = [
        { status: 200, body: `\ufeff: a remark\n\n${stream([1, "a"], [2, "b"])}id: 3\ndata: {`, cut: true },
        { cut: true },
        json({}, 503),
        // It repeats an event, and ends as if in order.
        { status: 200, body: stream([2, "b"], [3, "c"]) },
        { status: 200, body: stream([4, "run_finished"], [5, "z"]) },
    ];
    const { url, received } = await serve(context, () => replies.shift() as Reply);
    const events = await collect(registryAt(url).events("r1"));
    assert.deepEqual(events, [{ seq: 1 }, { seq: 2 }, { seq: 3 }, { seq: 4 }]);
    assert.deepEqual(
        received.map(({ headers }) => headers["last-event-id"]),
        [undefined, "2", "2", "2", "3"],
    );
});

test("a stream that gives nothing ends with an error", async (context) => {
    const { url, received } = await serve(context, () => ({ status: 200, body: ": nothing\n\n" }));
    await assert.rejects(collect(registryAt(url).events("a")), NotReachable);
    assert.equal(received.length, 3);
    for (const id of ["", "x", "-1", "0", "9".repeat(20)]) {
        const { url } = await serve(context, () => ({ status: 200, body: `id: ${id}\ndata: {}\n\n` }));
        await assert.rejects(collect(registryAt(url).events("a")), /no number/);
    }
});

test("changes are followed without an end", async (context) => {
    const { url, received } = await serve(context, (_, count) => ({
        status: 200,
        body: `id: ${count + 5}\nevent: publish\ndata: {"seq": ${count + 5}}\n\n`,
    }));
    const sequences: number[] = [];
    for await (const { seq } of registryAt(url).followChanges(5)) {
        sequences.push(seq);
        if (sequences.length === 3) {
            break;
        }
    }
    assert.deepEqual(sequences, [6, 7, 8]);
    assert.deepEqual(
        received.map(({ path, headers }) => [path, headers["last-event-id"]]),
        [
            ["/v1/changes?since=5", "5"],
            ["/v1/changes?since=5", "6"],
            ["/v1/changes?since=5", "7"],
        ],
    );
});

test("a redirect is not followed, and the token does not go with it", async (context) => {
    const other = await serve(context, () => json({ hosts: [] }));
    const { url } = await serve(context, () => ({ status: 307, headers: { location: other.url } }));
    await assert.rejects(registryAt(url).listHosts(), /redirect, which is not followed/);
    assert.deepEqual(other.received, []);
});

test("pages that do not advance end with an error", async (context) => {
    const { url, received } = await serve(context, () => json({ capabilities: [], next: "a" }));
    await assert.rejects(collect(registryAt(url).listCapabilities()), /same/);
    assert.equal(received.length, 2);
});

test("a run and a plan are JSON, and a run can be waited for", async (context) => {
    const { url } = await serve(context, ({ path }) => {
        return path.endsWith("/events")
            ? { status: 200, body: 'id: 1\nevent: run_finished\ndata: {"seq": 1}\n\n' }
            : json({ ...RUN, status: path === "/v1/executions" ? "running" : "succeeded", output: { a: 1 } });
    });
    const run = await registryAt(url).run("A", { wait: false });
    assert.equal(run.status, "running");
    assert.equal(await run.wait(), run);
    assert.deepEqual(JSON.parse(JSON.stringify(run)), { ...RUN, status: "succeeded", output: { a: 1 } });
    assert.deepEqual(run.output, { a: 1 });
});

test("references are sent as they are given", async (context) => {
    const { url, received } = await serve(context, ({ body }) => {
        return json({ ...RUN, status: "succeeded", checksum: JSON.parse(body).checksum });
    });
    const registry = registryAt(url);
    const checksum = `sha256:${"0".repeat(64)}`;
    await registry.run("A");
    await registry.run("A@1.0.0");
    await registry.run(`A@1.0.0#${checksum}`);
    await registry.run({ name: "A", version: "1.0.0", checksum });
    const bodies = received.map(({ body }) => JSON.parse(body));
    assert.deepEqual(bodies, [
        { name: "A" },
        { name: "A", version: "1.0.0" },
        { name: "A", version: "1.0.0", checksum },
        { name: "A", version: "1.0.0", checksum },
    ]);
    for (const text of ["", "@1", "A@", "A#x", "A@1#", "A@1#x#y"]) {
        await assert.rejects(registry.run(text), InvalidInput, text);
    }
    const search = await serve(context, () =>
        json({ capabilities: [{ name: "A", version: "1" }], metadata: {} }),
    );
    await assert.rejects(registryAt(search.url).searchCapabilities("a"), /without a version or a checksum/);
    // A registry that leaves the checksum out of a hit must not get a run of anything.
    const hit = { name: "A", version: "1.0.0", description: "", checksum: "" };
    await assert.rejects(registry.run(hit), InvalidInput);
});

test("another document than the wanted one is refused, though it has its own checksum", async (context) => {
    const document = { a2s: "1.1.0", name: "A", version: "1.0", description: "", execution: {} };
    const checksum = await computeChecksum(document);
    const { url } = await serve(context, () => json({ ...document, checksum }));
    const registry = registryAt(url);
    assert.equal((await registry.getCapability("A", "1.0.0")).checksum, checksum);
    assert.equal((await registry.getCapability("A")).version, "1.0");
    await assert.rejects(registry.getCapability("B", "1.0.0"), Drifted);
    await assert.rejects(registry.getCapability("A", "2.0.0"), Drifted);
});

test("a document is sent with the checksum that was computed here", async (context) => {
    const { url, received } = await serve(context, ({ body }) => {
        return json({ ...RUN, status: "succeeded", checksum: JSON.parse(body).checksum });
    });
    const document = {
        a2s: "1.1.0",
        name: "A",
        version: "1.0",
        description: "",
        checksum: "x",
        execution: {},
    };
    await registryAt(url).run(document);
    const body = JSON.parse(received[0]?.body ?? "");
    assert.equal(body.version, "1.0.0");
    assert.match(body.checksum, /^sha256:[0-9a-f]{64}$/);
});

test("the executor and the store work in a session", async (context) => {
    const { url, received } = await serve(context, ({ method, path }) => {
        if (path.startsWith("/v1/sessions/")) {
            return method === "GET" ? json({ entries: [{ name: "city", value: "Rome" }] }) : json({});
        }
        return json({ ...RUN, status: "succeeded" });
    });
    const registry = registryAt(url);
    const store = new StateStore(registry, "s 1");
    await store.set("city", "Rome");
    assert.equal(await store.get("city"), "Rome");
    assert.equal(await store.get("zip"), undefined);
    await store.delete("city");
    await new CapabilityExecutor(registry, store).executeCapabilityTasks("A");
    await new CapabilityExecutor(registry).run("A");
    assert.deepEqual(
        received.map(({ method, path, body }) => [method, path, body]),
        [
            ["PUT", "/v1/sessions/s%201/state/city", '"Rome"'],
            ["GET", "/v1/sessions/s%201/state", ""],
            ["GET", "/v1/sessions/s%201/state", ""],
            ["DELETE", "/v1/sessions/s%201/state/city", ""],
            ["POST", "/v1/executions", '{"name":"A","session":"s 1"}'],
            ["POST", "/v1/executions", '{"name":"A"}'],
        ],
    );
});

function turn(response: Json): Reply {
    return {
        status: 200,
        body: `event: response\ndata: ${JSON.stringify({ type: "response", ...response })}\n\n`,
    };
}

test("the agent asks the next registry while nothing fits, and keeps the session", async (context) => {
    const answer = { session: "s", turn: "t", message: "" };
    const first = await serve(context, () => turn({ ...answer, status: "nothing_fits" }));
    const second = await serve(context, () => turn({ ...answer, status: "completed" }));
    const agent = new A2SAgent();
    await assert.rejects(agent.handleRequest("x"), InvalidInput);
    agent.useRegistries([registryAt(first.url), registryAt(second.url)]);
    const types: string[] = [];
    const { status } = await agent.handleRequest("x", { onEvent: ({ type }) => types.push(type) });
    await agent.handleRequest("y");
    assert.equal(status, "completed");
    assert.deepEqual(types, ["response", "response"]);
    assert.deepEqual(
        second.received.map(({ body }) => JSON.parse(body)),
        [{ message: "x" }, { message: "y", session: "s" }],
    );
});

test("the agent cannot be kept busy for ever, and its problems are errors", async (context) => {
    const question = { fields: [], pending: { query: "x", missing: [] } };
    const asking = await serve(context, () =>
        turn({ session: "s", turn: "t", message: "", status: "input_required", question }),
    );
    const agent = new A2SAgent();
    agent.useRegistries([registryAt(asking.url)]);
    await assert.rejects(agent.handleRequest("x", { onQuestion: () => "why" }), /does not stop/);
    assert.equal(asking.received.length, 64);

    const problem = { status: 404, code: "A2S220", detail: "there is none" };
    const failing = await serve(context, () => ({
        status: 200,
        body: `event: problem\ndata: ${JSON.stringify(problem)}\n\n`,
    }));
    agent.useRegistries([registryAt(failing.url)]);
    await assert.rejects(agent.handleRequest("x"), NotFound);

    const silent = await serve(context, () => ({ status: 200, body: ": nothing\n\n" }));
    agent.useRegistries([registryAt(silent.url)]);
    await assert.rejects(agent.handleRequest("x"), NotReachable);
});

test("errors of hostile responses have safe members", async (context) => {
    const bodies = [
        { code: "A2S320", detail: "d", missing: "x" },
        { code: "A2S378", detail: "d", differences: null },
        { code: "A2S210", detail: "d", diagnostics: 5 },
        { code: "constructor", detail: "d" },
        { code: 5, detail: "d" },
        null,
        [],
    ];
    for (const body of bodies) {
        const { url } = await serve(context, () => json(body, 422));
        await assert.rejects(registryAt(url).listHosts(), (error: Json) => {
            assert.equal(error instanceof A2SError, true);
            assert.equal(error.status, 422);
            for (const list of [error.missing, error.differences, error.diagnostics]) {
                assert.ok(list === undefined || Array.isArray(list));
            }
            return true;
        });
    }
});
