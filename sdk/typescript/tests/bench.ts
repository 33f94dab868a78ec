/**
 * Measures a call of the SDK beside the same request with `fetch` alone. Both go to the same local server, in
 * turns. The server responds at once with the bytes of a recorded response, so what differs is the SDK.
 */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { A2SRegistry } from "@a2s/core";
import { type Json, ROOT } from "./support.js";

const ROUNDS = 40;
const CALLS = 100;

/** Returns the body of a recorded response. */
function recorded(file: string, name: string): string {
    const recordings: Json[] = JSON.parse(readFileSync(join(ROOT, "sdk/contract", file), "utf8"));
    return JSON.stringify(recordings.find((recording) => recording.name === name).exchanges[0].response.body);
}

/** Returns the mean time of a call in microseconds. */
async function microseconds(call: () => Promise<unknown>): Promise<number> {
    const begin = performance.now();
    for (let i = 0; i < CALLS; i++) {
        await call();
    }
    return ((performance.now() - begin) * 1000) / CALLS;
}

function median(values: number[]): number {
    return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] as number;
}

async function compare(
    label: string,
    bare: () => Promise<unknown>,
    sdk: () => Promise<unknown>,
): Promise<void> {
    const rounds: [number, number][] = [];
    for (let i = 0; i < ROUNDS + 5; i++) {
        rounds.push([await microseconds(bare), await microseconds(sdk)]);
    }
    // The compiler of the engine is at work in the first rounds.
    const measured = rounds.slice(5);
    const [plain, full] = [median(measured.map(([a]) => a)), median(measured.map(([, b]) => b))];
    const ratio = median(measured.map(([a, b]) => b / a));
    console.log(
        `${label}: fetch ${plain.toFixed(0)} us, SDK ${full.toFixed(0)} us, ratio ${ratio.toFixed(2)}`,
    );
}

const search = recorded("searches.json", "search/one intent");
const document = recorded("documents.json", "documents/a version");
const server = createServer((request, response) => {
    request.resume().on("end", () => {
        response.setHeader("Content-Type", "application/json");
        response.end(request.method === "POST" ? search : document);
    });
});
await new Promise<void>((listening) => {
    server.listen(0, "127.0.0.1", listening);
});
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const registry = new A2SRegistry(url, { token: "t" });
const headers = { Accept: "application/json", "Content-Type": "application/json", Authorization: "Bearer t" };
const body = JSON.stringify({ intent: "list dog breeds" });

await compare(
    "search",
    async () => (await fetch(`${url}/v1/search`, { method: "POST", headers, body })).json(),
    () => registry.searchCapabilities("list dog breeds"),
);
await compare(
    "verified document",
    async () => (await fetch(`${url}/v1/capabilities/GetJoke/1.0.0`, { headers })).json(),
    () => registry.getCapability("GetJoke", "1.0.0"),
);
server.close();
server.closeAllConnections();
