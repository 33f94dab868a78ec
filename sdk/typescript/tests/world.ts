/** A real A2S on loopback, with the services of two shipped capabilities behind it. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { A2SRegistry } from "@a2s/core";
import { json, type Received, type Reply, serve } from "./support.js";

/** The program, if the environment names it. */
export const PROGRAM = process.env["A2S_TEST_BIN"];

/** Why tests without the program are skipped. */
export const SKIP = PROGRAM ? false : "SKIPPED: set A2S_TEST_BIN to the program a2s";

const POLICY = `
version: 1
default: allow
rules:
  - id: countries-need-a-person
    on: toolCallRequest
    tool: GetCountry.readCountry
    decision: approve
    message: A person approves each country.
    approval: {within: 10m}
  - id: grammar-is-private
    on: toolCallRequest
    tool: CheckGrammar.*
    decision: deny
    message: Grammar is private.
`;
const COUNTRY = {
    name: "France",
    native: "France",
    capital: "Paris",
    currency: "EUR",
    phone: "33",
    emoji: "FR",
    continent: { name: "Europe" },
    languages: [{ name: "French" }],
};

/** A running A2S. */
export interface World {
    url: string;
    /** The data folder, with the owner's token. */
    data: string;
    registry: A2SRegistry;
}

/** Starts the program, which ends with the test. */
export async function startWorld(context: TestContext): Promise<World> {
    const folder = mkdtempSync(join(tmpdir(), "a2s-sdk-"));
    const services = await serve(context, answer);
    const url = `http://127.0.0.1:${await freePort()}`;
    const data = join(folder, "data");
    writeFileSync(join(folder, "policy.yaml"), POLICY);
    const log = join(folder, "log");
    const upstreams = ["dogapi.dog", "countries.trevorblades.com"].flatMap((host) => {
        return ["--upstream", `${host}=${services.url}`];
    });
    const args = ["up", "--listen", url.slice("http://".length), "--data-dir", data, ...upstreams];
    args.push("--policy", join(folder, "policy.yaml"), "--embedder", "builtin-fast");
    const output = openSync(log, "w");
    const child = spawn(PROGRAM as string, args, { stdio: ["ignore", output, output] });
    context.after(async () => {
        // In this order: the program writes into the folder until it has ended.
        await stop(child);
        rmSync(folder, { recursive: true, force: true });
    });
    await becomeReady(url, child, log);
    const token = readFileSync(join(data, "token"), "utf8").trim();
    const retry = { pause: 50, approvalPause: 50 };
    return { url, data, registry: new A2SRegistry(url, { token, retry }) };
}

/** Writes the file of `a2s types` for two shipped capabilities. */
export async function writeTypes({ url, data }: World, file: string): Promise<void> {
    const args = ["types", "--lang", "ts", "--output", file, "GetCountry", "ListDogBreeds"];
    await promisify(execFile)(PROGRAM as string, ["--url", url, "--data-dir", data, ...args]);
}

function answer({ path }: Received): Reply {
    switch (path) {
        case "/api/v2/breeds":
            return json({ data: [{ id: "1", attributes: { name: "Akita" } }] });
        case "/graphql":
            return json({ data: { country: COUNTRY } });
        default:
            return { status: 404 };
    }
}

async function freePort(): Promise<number> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    server.close();
    await once(server, "close");
    return port;
}

async function becomeReady(url: string, child: ChildProcess, log: string): Promise<void> {
    const registry = new A2SRegistry(url, { token: "none", retry: { attempts: 1 } });
    for (let look = 0; look < 600; look++) {
        if (child.exitCode !== null) {
            break;
        }
        const isReady = await registry.checkReadiness().catch(() => false);
        if (isReady) {
            return;
        }
        await sleep(100);
    }
    throw new Error(`a2s did not become ready: ${readFileSync(log, "utf8")}`);
}

async function stop(child: ChildProcess): Promise<void> {
    if (child.exitCode === null) {
        const exit = once(child, "exit");
        child.kill("SIGTERM");
        await exit;
    }
}
