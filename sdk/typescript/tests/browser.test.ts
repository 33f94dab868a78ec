/** The SDK in a page of Chromium, on the same origin as the real program. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse, request as send } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import test, { type TestContext } from "node:test";
import { chromium, type Page } from "playwright-core";
import { ROOT } from "./support.js";
import { SKIP, startWorld, type World } from "./world.js";

const CHROMIUM = process.env["A2S_CHROMIUM"] ?? "/usr/bin/chromium";
const NO_BROWSER = existsSync(CHROMIUM)
    ? false
    : `SKIPPED: there is no Chromium at ${CHROMIUM}; install it, or set A2S_CHROMIUM`;

const PAGE = `<!doctype html>
<title>A2S</title>
<script type="importmap">{"imports": {"@a2s/core": "/sdk/index.js"}}</script>
`;

/** A reverse proxy before A2S, which also serves a page and the SDK. */
interface Site {
    url: string;
    /** The responses of A2S to requests for the events of a run, by their \`Last-Event-ID\`. */
    streams: (string | undefined)[];
    /** Whether the next stream of events is cut after its first event. */
    cutsNext: boolean;
}

async function startSite(context: TestContext, world: World): Promise<Site> {
    const site: Site = { url: "", streams: [], cutsNext: false };
    const server = createServer((request, response) => {
        const { pathname } = new URL(request.url ?? "/", "http://site");
        const [, file] = /^\/sdk\/([a-z-]+\.js)$/.exec(pathname) ?? [];
        if (pathname === "/") {
            response.writeHead(200, { "content-type": "text/html" }).end(PAGE);
        } else if (file !== undefined) {
            const script = readFileSync(join(ROOT, "sdk/typescript/dist", file));
            response.writeHead(200, { "content-type": "text/javascript" }).end(script);
        } else {
            forward(site, world, request, response);
        }
    });
    await new Promise<void>((done) => {
        server.listen(0, "127.0.0.1", done);
    });
    context.after(() => {
        server.close();
        server.closeAllConnections();
    });
    site.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return site;
}

function forward(site: Site, world: World, request: IncomingMessage, response: ServerResponse): void {
    const { method, headers, url = "/" } = request;
    const isStream = url.endsWith("/events");
    if (isStream) {
        site.streams.push(headers["last-event-id"]?.toString());
    }
    const isCut = isStream && site.cutsNext;
    const outgoing = send(world.url + url, { method: method ?? "GET", headers }, (incoming) => {
        response.writeHead(incoming.statusCode ?? 502, incoming.headers);
        if (isCut) {
            site.cutsNext = false;
            cutAfterFirstEvent(incoming, response);
        } else {
            incoming.pipe(response);
        }
    });
    outgoing.on("error", () => response.destroy());
    response.on("close", () => outgoing.destroy());
    request.pipe(outgoing);
}

/** Sends the first event, and destroys the connection when the page has had time to read it. */
function cutAfterFirstEvent(incoming: IncomingMessage, response: ServerResponse): void {
    let text = "";
    incoming.setEncoding("utf8");
    incoming.on("data", (chunk: string) => {
        text += chunk;
        const [event] = /^.*?\ndata:[^\n]*\n\n/s.exec(text) ?? [];
        if (event !== undefined) {
            incoming.destroy();
            response.write(event);
            setTimeout(() => response.destroy(), 500);
        }
    });
}

/** Opens the page, and returns it with the origins of all its requests. */
async function openPage(context: TestContext, url: string): Promise<{ page: Page; origins: Set<string> }> {
    const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
    context.after(() => browser.close());
    const page = await browser.newPage();
    page.setDefaultTimeout(30_000);
    const origins = new Set<string>();
    page.on("request", (request) => origins.add(new URL(request.url()).origin));
    await page.goto(url);
    return { page, origins };
}

test("the SDK in a page of the same origin", { skip: SKIP || NO_BROWSER }, async (context) => {
    const world = await startWorld(context);
    const site = await startSite(context, world);
    const { page, origins } = await openPage(context, site.url);
    const token = readFileSync(join(world.data, "token"), "utf8").trim();

    await context.test("one checksum from the search to the run", async () => {
        const result = await page.evaluate(async (token) => {
            const { A2SRegistry } = await import("@a2s/core");
            const registry = new A2SRegistry(location.origin, { token });
            const [hit] = await registry.searchCapabilities("which kinds of dogs are there", { limit: 1 });
            if (hit === undefined) {
                throw new Error("nothing fits");
            }
            const document = await registry.verifyChecksum(hit);
            const plan = await registry.plan(hit, { preview: true });
            const run = await plan.run();
            const checksums = [hit.checksum, document.checksum, plan.capability.checksum, run.checksum];
            return { checksums, steps: plan.steps.length, output: run.output };
        }, token);
        assert.match(result.checksums[0] ?? "", /^sha256:[0-9a-f]{64}$/);
        assert.equal(new Set(result.checksums).size, 1);
        assert.equal(result.steps, 1);
        assert.deepEqual(result.output, { breeds: [{ id: "1", attributes: { name: "Akita" } }] });
    });

    await context.test("another checksum is refused", async () => {
        const error = await page.evaluate(async (token) => {
            const { A2SRegistry, ChecksumMismatch } = await import("@a2s/core");
            const registry = new A2SRegistry(location.origin, { token });
            const checksum = `sha256:${"0".repeat(64)}`;
            const call = registry.verifyChecksum({ name: "ListDogBreeds", version: "1.0.0", checksum });
            const error = await call.then(
                () => undefined,
                (thrown: unknown) => thrown,
            );
            return error instanceof ChecksumMismatch && error.expected;
        }, token);
        assert.equal(error, `sha256:${"0".repeat(64)}`);
    });

    await context.test("no events come after the last one", async () => {
        const later = await page.evaluate(async (token) => {
            const { A2SRegistry } = await import("@a2s/core");
            const registry = new A2SRegistry(location.origin, { token });
            const run = await registry.run({ name: "ListDogBreeds" });
            let after = 0;
            for await (const { seq } of run.events()) {
                after = seq;
            }
            const later: number[] = [];
            for await (const { seq } of run.events({ after })) {
                later.push(seq);
            }
            return later;
        }, token);
        assert.deepEqual(later, []);
    });

    for (const isCut of [false, true]) {
        await context.test(`the events of a run${isCut ? ", after a lost connection" : ""}`, async () => {
            site.streams = [];
            site.cutsNext = isCut;
            const { events, status } = await page.evaluate(async (token) => {
                const { A2SRegistry } = await import("@a2s/core");
                const registry = new A2SRegistry(location.origin, { token, retry: { pause: 50 } });
                const run = await registry.run("ListDogBreeds", { wait: false });
                const events: { seq: number; type: string }[] = [];
                for await (const { seq, type } of run.events()) {
                    events.push({ seq, type });
                }
                return { events, status: (await run.refresh()).status };
            }, token);
            assert.equal(events[0]?.type, "run_started");
            assert.equal(events.at(-1)?.type, "run_finished");
            assert.deepEqual(
                events.map(({ seq }) => seq),
                events.map((_, index) => index + 1),
            );
            assert.equal(status, "succeeded");
            assert.deepEqual(site.streams, isCut ? [undefined, "1"] : [undefined]);
        });
    }

    await context.test("a run that the guardian denies", async () => {
        const error = await page.evaluate(async (token) => {
            const { A2SRegistry, Denied } = await import("@a2s/core");
            const registry = new A2SRegistry(location.origin, { token });
            const call = registry.run("CheckGrammar", { inputs: { text: "me like it" } });
            const error = await call.then(
                () => undefined,
                (thrown: unknown) => thrown,
            );
            return (
                error instanceof Denied && { name: error.name, status: error.run?.status, code: error.code }
            );
        }, token);
        assert.deepEqual(error, { name: "Denied", status: "denied", code: "A2S340" });
    });

    await context.test("all requests go to that origin", () => {
        assert.deepEqual([...origins], [site.url]);
    });
});
