/** A real `a2s up` in a folder of its own, with the stand-in for the services. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { DOCUMENTS, POLICY } from "./documents";
import { Services } from "./services";

const run = promisify(execFile);
const PROGRAM =
    process.env["A2S_TEST_BIN"] ?? fileURLToPath(new URL("../../../target/debug/a2s", import.meta.url));
/** The time in which the program must be ready, in milliseconds. */
const START_TIMEOUT = 60_000;

export interface RunRecord {
    id: string;
    status: string;
    output?: unknown;
}

async function freePort(): Promise<number> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, "close");
    return port;
}

export class World {
    readonly services: Services;
    readonly folder: string;
    readonly port: number;
    token = "";
    #process: ChildProcess | undefined;
    #log = "";

    private constructor(services: Services, folder: string, port: number) {
        this.services = services;
        this.folder = folder;
        this.port = port;
    }

    /** Starts everything, and publishes the documents of the tests. */
    static async start(): Promise<World> {
        const folder = await mkdtemp(join(tmpdir(), "a2s-browser-"));
        const world = new World(await Services.start(), folder, await freePort());
        try {
            await writeFile(join(folder, "policy.yaml"), POLICY);
            await world.startServer();
            await world.publish(...DOCUMENTS);
            return world;
        } catch (error) {
            await world.stop();
            throw error;
        }
    }

    get origin(): string {
        return `http://127.0.0.1:${this.port}`;
    }

    /** Starts the server, again when it was stopped: with the same data and the same port. */
    async startServer(): Promise<void> {
        const flags = [
            "up",
            "--listen",
            `127.0.0.1:${this.port}`,
            "--policy",
            join(this.folder, "policy.yaml"),
        ];
        // The breaker of a host would count the failures of one test in another.
        const limits = ["--durability", "normal", "--host-limit", "breaker-failures=0", "--log", "warn"];
        const child = spawn(PROGRAM, [...flags, ...limits, ...this.services.upstreamFlags()], {
            env: this.#environment(),
            stdio: ["ignore", "pipe", "pipe"],
        });
        for (const stream of [child.stdout, child.stderr]) {
            stream.on("data", (part: Buffer) => {
                this.#log = (this.#log + part.toString()).slice(-20_000);
            });
        }
        this.#process = child;
        // A worker that is ended early takes its server with it.
        process.once("exit", () => child.kill("SIGKILL"));
        await this.#untilReady(child);
        this.token = (await readFile(join(this.folder, "data", "token"), "utf8")).trim();
    }

    async #untilReady(child: ChildProcess): Promise<void> {
        const end = Date.now() + START_TIMEOUT;
        while (Date.now() < end && child.exitCode === null) {
            const response = await fetch(`${this.origin}/readyz`).catch(() => undefined);
            if (response?.ok) {
                return;
            }
            await pause(50);
        }
        throw new Error(`a2s up is not ready:\n${this.#log}`);
    }

    /** Ends the server: as a person does, or at once. */
    async stopServer(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
        const child = this.#process;
        this.#process = undefined;
        if (child !== undefined && child.exitCode === null && child.signalCode === null) {
            const end = once(child, "exit");
            child.kill(signal);
            await end;
        }
    }

    async stop(): Promise<void> {
        await this.stopServer("SIGKILL");
        await this.services.stop();
        await rm(this.folder, { recursive: true, force: true });
    }

    #environment(): NodeJS.ProcessEnv {
        const { PATH, HOME } = process.env;
        return { PATH, HOME, A2S_DATA_DIR: join(this.folder, "data"), A2S_URL: this.origin };
    }

    /** Runs a command of the program, and returns what it prints. */
    async cli(...args: string[]): Promise<string> {
        const { stdout } = await run(PROGRAM, args, { env: this.#environment(), maxBuffer: 1 << 26 }).catch(
            // The program says on the standard output what is wrong with a document.
            (error: Error & { stdout?: string }) => {
                throw new Error(`${error.message}\n${error.stdout ?? ""}`);
            },
        );
        return stdout.trim();
    }

    /** Publishes documents, with their checksums filled in. */
    async publish(...documents: string[]): Promise<void> {
        const files = documents.map((_, at) => join(this.folder, `document-${at}.yaml`));
        await Promise.all(documents.map((text, at) => writeFile(files[at] as string, text)));
        await this.cli("publish", "--write-checksum", ...files);
    }

    /** Calls the API. */
    async api<T>(method: string, path: string, body?: unknown, token = this.token): Promise<T> {
        const response = await fetch(this.origin + path, {
            method,
            headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
            ...(body !== undefined && { body: JSON.stringify(body) }),
        });
        const text = await response.text();
        if (!response.ok) {
            throw new Error(`${method} ${path}: ${response.status} ${text}`);
        }
        return text === "" ? (undefined as T) : JSON.parse(text);
    }

    /** Starts a run, and returns its id. */
    async startRun(name: string, inputs: object = {}, token = this.token): Promise<string> {
        const { id } = await this.api<RunRecord>(
            "POST",
            "/v1/executions",
            { name, inputs, wait: false },
            token,
        );
        return id;
    }

    /** Runs a capability to its end, or until it waits. */
    async run(name: string, inputs: object = {}, token = this.token): Promise<RunRecord> {
        return this.api("POST", "/v1/executions", { name, inputs, wait: true }, token);
    }

    /** Waits until a run has a status. */
    async untilStatus(id: string, status: string): Promise<void> {
        const end = Date.now() + 20_000;
        let last = "";
        while (Date.now() < end) {
            last = (await this.api<RunRecord>("GET", `/v1/executions/${id}`)).status;
            if (last === status) {
                return;
            }
            await pause(50);
        }
        throw new Error(`run ${id} is ${last}, not ${status}`);
    }

    /** Makes a token, and returns its text. */
    async createToken(name: string, ...scopes: string[]): Promise<string> {
        const { token } = await this.api<{ token: string }>("POST", "/v1/tokens", { name, scopes });
        return token;
    }

    /** Returns a link that signs in once. */
    signInLink(): Promise<string> {
        return this.cli("console", "--print");
    }
}
