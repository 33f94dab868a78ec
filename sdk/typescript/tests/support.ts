/** What the tests share: servers on loopback, and registries that do not wait. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import type { TestContext } from "node:test";
import { A2SRegistry, type RegistryOptions } from "@a2s/core";

/** The repository. This file runs from `sdk/typescript/build/tests`. */
export const ROOT = resolve(import.meta.dirname, "../../../..");

// biome-ignore lint/suspicious/noExplicitAny: what comes from JSON has any type
export type Json = any;

/** A request as a server received it. */
export interface Received {
    method: string;
    path: string;
    headers: IncomingMessage["headers"];
    body: string;
}

/** What a server sends. Without a status it only closes the connection. */
export interface Reply {
    status?: number;
    headers?: Record<string, string>;
    body?: string | Buffer;
    /** Whether the connection ends before the response does. */
    cut?: boolean;
    /** Keeps the connection open after the body, and calls this. */
    hold?: () => void;
}

/** Returns a response in JSON. */
export function json(value: Json, status = 200, headers: Record<string, string> = {}): Reply {
    return {
        status,
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(value),
    };
}

/** Starts a server, which ends with the test, and returns its address and what it received. */
export async function serve(
    context: TestContext,
    answer: (received: Received, count: number) => Reply | Promise<Reply>,
): Promise<{ url: string; received: Received[] }> {
    const received: Received[] = [];
    const server = createServer(async (request, response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of request) {
            chunks.push(chunk);
        }
        const { method = "", url: path = "", headers } = request;
        const one = { method, path, headers, body: Buffer.concat(chunks).toString() };
        received.push(one);
        send(response, await answer(one, received.length));
    });
    await new Promise<void>((done) => {
        server.listen(0, "127.0.0.1", done);
    });
    context.after(() => {
        server.close();
        server.closeAllConnections();
    });
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

function send(response: ServerResponse, { status, headers, body = "", cut, hold }: Reply): void {
    if (status === undefined) {
        response.destroy();
        return;
    }
    // A connection that is kept could hide one that was lost.
    response.writeHead(status, { ...headers, connection: "close" });
    if (hold) {
        response.flushHeaders();
        response.write(body || ":\n\n", hold);
    } else if (cut) {
        response.write(body, () => response.destroy());
    } else {
        response.end(body);
    }
}

/** Returns a registry at an address that retries without pauses. */
export function registryAt(url: string, options: RegistryOptions = {}): A2SRegistry {
    return new A2SRegistry(url, { token: "test-token", retry: { sleep: async () => {} }, ...options });
}

/** Returns all items of an iterator. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
    const list: T[] = [];
    for await (const item of items) {
        list.push(item);
    }
    return list;
}
