/** The only place where requests leave: attempts, time limits, sizes, and streams that continue. */
import { A2SError, asError, errorOfResponse, InvalidInput, messageOf, NotReachable } from "./errors.js";
import { type JsonValue, parseJson } from "./json.js";
import type { Settings } from "./settings.js";
import { MalformedStream, type Message, readMessages } from "./stream.js";

/** The largest size of a response, in bytes. */
const MAX_RESPONSE = 64 * 1024 * 1024;

/** Options that each request has. */
export interface RequestOptions {
    /** Cancels the request. */
    signal?: AbortSignal | undefined;
}

/** A request to A2S. */
export interface ApiRequest {
    method: "GET" | "POST" | "PUT" | "DELETE";
    path: string;
    query?: Record<string, string | number | boolean | undefined>;
    headers?: Record<string, string>;
    /** The body, as JSON. `null` is a body. */
    json?: unknown;
    /** The body, as YAML. */
    yaml?: string;
    /** Whether a repetition after a lost connection is safe. `GET`, `PUT` and `DELETE` always are. */
    repeatable?: boolean;
}

/** Statuses after which any request may be sent again, and those after which a repetition must be safe. */
const BUSY = [429, 503];
const BROKEN = [408, 500, 502, 504];

/** Joins a path of which each value is one segment. */
export function path(texts: TemplateStringsArray, ...segments: string[]): string {
    return texts.reduce((joined, text, index) => joined + escapeSegment(segments[index - 1] ?? "") + text);
}

function escapeSegment(segment: string): string {
    // A URL would resolve dots, and an empty segment would be another route.
    if (typeof segment !== "string" || ["", ".", ".."].includes(segment) || !segment.isWellFormed()) {
        throw new InvalidInput(`${JSON.stringify(segment)} cannot be a part of an address`);
    }
    return encodeURIComponent(segment);
}

/** A connection that was lost before the end of the response. */
class ConnectionLost extends Error {
    constructor(override readonly cause: Error) {
        super(cause.message);
    }
}

/** A response that was refused, with what says if the request is tried again. */
class Refusal extends Error {
    constructor(
        readonly error: A2SError,
        readonly status: number,
        readonly retryAfter: number | undefined,
    ) {
        super(error.message);
    }
}

/** Sends requests to one A2S. */
export class Transport {
    constructor(private readonly settings: Settings) {}

    /**
     * Sends a request and returns the text of the response. A patient request is sent again for as long as a
     * restart of A2S takes.
     */
    async text(request: ApiRequest, options: RequestOptions, isPatient = false): Promise<string> {
        const { timeout } = this.settings;
        const tries = new Tries(this.settings.retry, isRepeatable(request), isPatient);
        return this.#try(tries, options.signal, async () => {
            const limit = timeout <= 0 ? undefined : AbortSignal.timeout(timeout);
            const signals = [options.signal, limit].filter((signal) => signal !== undefined);
            const signal = signals.length > 0 ? AbortSignal.any(signals) : undefined;
            try {
                const response = await this.#open(request, "application/json", signal);
                const text = await readText(response, signal);
                checkStatus(response, text);
                return text;
            } catch (error) {
                if (limit?.aborted && !options.signal?.aborted) {
                    throw new NotReachable(`A2S has not answered within ${timeout} ms`);
                }
                throw error;
            }
        });
    }

    /** Sends a request and returns the response, which is JSON. */
    async call<T>(request: ApiRequest, options: RequestOptions, isPatient = false): Promise<T> {
        return parseResponse<T>(await this.text(request, options, isPatient));
    }

    /** Sends a request and reads the events of the response, once. */
    async *stream(request: ApiRequest, options: RequestOptions): AsyncGenerator<Message, void, void> {
        const tries = new Tries(this.settings.retry, isRepeatable(request), false);
        const body = await this.#try(tries, options.signal, () => this.#openStream(request, options.signal));
        if (body !== null) {
            try {
                yield* this.#readStream(body, options.signal);
            } catch (error) {
                throw finalError(error);
            }
        }
    }

    /**
     * Reads the numbered events of a stream as they come, up to the one that `isLast` names. After a lost
     * connection it continues with what follows the last event.
     */
    async *follow<T>(
        request: ApiRequest,
        after: number,
        isLast: (message: Message) => boolean,
        options: RequestOptions,
        isPatient = false,
    ): AsyncGenerator<T, void, void> {
        let last = after;
        const tries = new Tries(this.settings.retry, true, isPatient);
        for (;;) {
            const headers: Record<string, string> = last > 0 ? { "Last-Event-ID": String(last) } : {};
            try {
                const body = await this.#openStream({ ...request, headers }, options.signal);
                if (body === null) {
                    // There is no further event.
                    return;
                }
                for await (const message of this.#readStream(body, options.signal)) {
                    const sequence = sequenceOf(message);
                    if (sequence <= last) {
                        continue;
                    }
                    last = sequence;
                    tries.noteProgress();
                    yield parseResponse<T>(message.data);
                    if (isLast(message)) {
                        return;
                    }
                }
                // `fetch` of Node reports some lost connections as an orderly end.
                throw new ConnectionLost(new Error("the stream has ended too early"));
            } catch (error) {
                const pause = tries.nextPause(error);
                if (pause === undefined) {
                    throw finalError(error);
                }
                await this.pause(pause, options.signal);
            }
        }
    }

    /** Makes a pause: a number of milliseconds, or the one that the settings name. */
    async pause(length: number | "pause" | "approvalPause", signal: AbortSignal | undefined): Promise<void> {
        const { retry } = this.settings;
        signal?.throwIfAborted();
        await retry.sleep(typeof length === "number" ? length : retry[length], signal);
    }

    /** Opens a stream of events. It is null if A2S has none. */
    async #openStream(
        request: ApiRequest,
        signal: AbortSignal | undefined,
    ): Promise<ReadableStream<Uint8Array> | null> {
        // The limit is for the begin of the response: then the stream has that of its silence.
        const limit = new AbortController();
        const timer = setTimeout(
            () => limit.abort(new Error("the stream did not begin in time")),
            this.settings.retry.idleTimeout,
        );
        let opened: Response;
        try {
            const both = signal === undefined ? limit.signal : AbortSignal.any([signal, limit.signal]);
            opened = await this.#open(request, "text/event-stream", both);
        } catch (error) {
            throw limit.signal.aborted && !signal?.aborted
                ? new ConnectionLost(asError(limit.signal.reason))
                : error;
        } finally {
            clearTimeout(timer);
        }
        if (!opened.ok) {
            checkStatus(opened, await readText(opened, signal));
        }
        // Chromium gives a response without content an empty body.
        if (opened.status === 204) {
            return null;
        }
        if (!/^text\/event-stream/.test(opened.headers.get("Content-Type") ?? "text/event-stream")) {
            throw new A2SError("the response is not a stream of events", { status: opened.status });
        }
        return opened.body;
    }

    async *#readStream(
        body: ReadableStream<Uint8Array>,
        signal: AbortSignal | undefined,
    ): AsyncGenerator<Message, void, void> {
        try {
            yield* readMessages(body, this.settings.retry.idleTimeout);
        } catch (error) {
            throw error instanceof MalformedStream ? new A2SError(error.message) : lost(error, signal);
        }
    }

    /** Makes attempts until one succeeds, or another would be wrong. */
    async #try<T>(tries: Tries, signal: AbortSignal | undefined, attempt: () => Promise<T>): Promise<T> {
        for (;;) {
            try {
                return await attempt();
            } catch (error) {
                const pause = tries.nextPause(error);
                if (pause === undefined) {
                    throw finalError(error);
                }
                await this.pause(pause, signal);
            }
        }
    }

    /** Sends a request once, and returns the response before its body was read. */
    async #open(request: ApiRequest, accept: string, signal: AbortSignal | undefined): Promise<Response> {
        const token = await this.settings.findToken();
        const headers: Record<string, string> = { Accept: accept, ...request.headers };
        if (token !== undefined) {
            headers["Authorization"] = `Bearer ${token}`;
        }
        if (this.settings.onBehalfOf !== undefined) {
            headers["A2S-On-Behalf-Of"] = this.settings.onBehalfOf;
        }
        const init: RequestInit = {
            method: request.method,
            headers,
            // The token must go to no other origin.
            redirect: "manual",
            credentials: "omit",
            signal: signal ?? null,
        };
        if (request.yaml !== undefined) {
            headers["Content-Type"] = "application/yaml";
            init.body = request.yaml;
        } else if (request.json !== undefined) {
            headers["Content-Type"] = "application/json";
            init.body = JSON.stringify(request.json);
        }
        for (const [name, value] of Object.entries(headers)) {
            if (!/^[\x20-\x7e]*$/.test(value)) {
                throw new InvalidInput(`the header \`${name}\` would have an invisible character`);
            }
        }
        try {
            return await this.settings.fetch(this.settings.url + request.path + queryOf(request), init);
        } catch (error) {
            throw lost(error, signal);
        }
    }
}

/** Returns the query of a request, with its parameters in the order of the alphabet. */
function queryOf(request: ApiRequest): string {
    const parameters = Object.entries(request.query ?? {})
        .filter(([, value]) => value !== undefined)
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
    return parameters.length > 0 ? `?${parameters.join("&")}` : "";
}

function isRepeatable(request: ApiRequest): boolean {
    return request.repeatable ?? request.method !== "POST";
}

/** The tries of one request, or of one stream since its last progress. */
class Tries {
    #made = 0;
    #paused = 0;

    constructor(
        private readonly retry: Settings["retry"],
        private readonly isRepeatable: boolean,
        private isPatient: boolean,
    ) {}

    /** Begins anew: A2S is there, so that a restart is the likely reason of the next loss. */
    noteProgress(): void {
        this.#made = 0;
        this.#paused = 0;
        this.isPatient = true;
    }

    /** Returns the pause before another try, or nothing if there must be none. */
    nextPause(error: unknown): number | undefined {
        this.#made += 1;
        const status = error instanceof Refusal ? error.status : 0;
        const wanted = error instanceof Refusal ? error.retryAfter : undefined;
        const { attempts, pause, maxPause, reconnect } = this.retry;
        const isSafe = this.isRepeatable && (error instanceof ConnectionLost || BROKEN.includes(status));
        if (!(isSafe || BUSY.includes(status)) || (wanted !== undefined && wanted * 1000 > maxPause)) {
            return undefined;
        }
        const even = Math.min(pause * 2 ** Math.min(this.#made - 1, 16), 10_000, maxPause);
        this.#paused += even;
        const isOver = this.isPatient ? this.#paused > reconnect : this.#made >= attempts;
        if (isOver) {
            return undefined;
        }
        // Clients that a restart has stopped at the same time come back at different times.
        return wanted === undefined ? even * (0.75 + Math.random() / 2) : wanted * 1000;
    }
}

async function readText(response: Response, signal: AbortSignal | undefined): Promise<string> {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    const reader = response.body?.getReader();
    let text = "";
    let size = 0;
    for (;;) {
        let chunk: ReadableStreamReadResult<Uint8Array> | undefined;
        try {
            chunk = await reader?.read();
        } catch (error) {
            throw lost(error, signal);
        }
        size += chunk?.value?.length ?? 0;
        if (size > MAX_RESPONSE) {
            await reader?.cancel().catch(() => undefined);
            throw unreadable(`it has more than ${MAX_RESPONSE} bytes`);
        }
        try {
            text += decoder.decode(chunk?.value, { stream: chunk?.value !== undefined });
        } catch (error) {
            throw unreadable("it is not in UTF-8", error);
        }
        if (chunk === undefined || chunk.done) {
            return text;
        }
    }
}

/** Parses a response. The types say what A2S sends; a text that is not JSON is refused. */
function parseResponse<T>(text: string): T {
    try {
        return parseJson(text) as T;
    } catch (error) {
        throw unreadable(messageOf(error), error);
    }
}

function unreadable(problem: string, cause?: unknown): A2SError {
    return new A2SError(`the response cannot be read: ${problem}`, {
        hint: "Check that the address is that of A2S, with a compatible version.",
        cause: cause === undefined ? undefined : asError(cause),
    });
}

/** Throws the error of a response that is not a success. */
function checkStatus(response: Response, text: string): void {
    if (response.ok) {
        return;
    }
    let body: JsonValue = null;
    try {
        body = parseJson(text);
    } catch {
        // A proxy may have sent a page: the status says enough.
    }
    const { headers } = response;
    const retryAfter = readRetryAfter(headers.get("Retry-After"), headers.get("Date"));
    throw new Refusal(errorOfResponse(response.status, body, retryAfter), response.status, retryAfter);
}

/**
 * Returns the seconds of the header, which is a number or a date (RFC 9110, section 10.2.3). A date counts from the
 * `Date` of the response: clocks differ.
 */
function readRetryAfter(value: string | null, date: string | null): number | undefined {
    if (value === null) {
        return undefined;
    }
    const now = Date.parse(date ?? "") || Date.now();
    const isNumber = /^\d{1,9}(\.\d{1,9})?$/.test(value);
    const seconds = isNumber ? Number(value) : (Date.parse(value) - now) / 1000;
    return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function sequenceOf(message: Message): number {
    const sequence = /^\d+$/.test(message.id) ? Number(message.id) : 0;
    if (sequence < 1 || !Number.isSafeInteger(sequence)) {
        throw new A2SError("an event of a stream has no number");
    }
    return sequence;
}

/** Returns what a failed `fetch` or a failed reading means. */
function lost(error: unknown, signal: AbortSignal | undefined): unknown {
    return signal?.aborted ? signal.reason : new ConnectionLost(asError(error));
}

/** Returns the error for the caller. */
function finalError(error: unknown): unknown {
    if (error instanceof Refusal) {
        return error.error;
    }
    if (error instanceof ConnectionLost) {
        // Node explains a failed `fetch` in its cause.
        const reason = error.cause.cause instanceof Error ? error.cause.cause : error.cause;
        return new NotReachable(`A2S does not answer: ${reason.message}`, {
            cause: error.cause,
            hint: "Start it with `a2s up`, or check the address.",
        });
    }
    return error;
}
