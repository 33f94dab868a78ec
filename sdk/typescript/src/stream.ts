/** Server-sent events. */

/** The largest size of an event, in characters: that of a response, as the last event of a run has its output. */
const MAX_EVENT = 64 * 1024 * 1024;

/** One server-sent event. */
export interface Message {
    id: string;
    event: string;
    data: string;
}

/** A stream without a byte for so long that its connection must be lost. */
export class SilentStream extends Error {}

/** An event that is larger than {@link MAX_EVENT}, or not text. */
export class MalformedStream extends Error {}

/**
 * Reads the events of a stream. What stands after the last empty line is not an event.
 *
 * @throws MalformedStream, or the error of the stream
 */
export async function* readMessages(
    body: ReadableStream<Uint8Array>,
    idleTimeout: number,
): AsyncGenerator<Message, void, void> {
    let message: Message = { id: "", event: "", data: "" };
    let data: string[] = [];
    let size = 0;
    for await (const line of readLines(body, idleTimeout)) {
        size += line.length;
        if (size > MAX_EVENT) {
            throw tooLarge();
        }
        if (line === "") {
            if (data.length > 0) {
                yield { ...message, data: data.join("\n") };
            }
            message = { id: "", event: "", data: "" };
            data = [];
            size = 0;
            continue;
        }
        const colon = line.indexOf(":");
        const name = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (name === "data") {
            data.push(value);
        } else if (name === "id" || name === "event") {
            message[name] = value;
        }
    }
}

/** Reads lines, which end with a line feed, with or without a carriage return before it. */
async function* readLines(
    body: ReadableStream<Uint8Array>,
    idleTimeout: number,
): AsyncGenerator<string, void, void> {
    const reader = body.getReader();
    const decoder = new TextDecoder("utf-8", { fatal: true });
    let rest = "";
    try {
        for (;;) {
            const { done, value } = await within(idleTimeout, reader.read());
            if (done) {
                return;
            }
            const lines = decode(decoder, value).split("\n");
            lines[0] = rest + lines[0];
            rest = lines.pop() ?? "";
            for (const line of lines) {
                yield line.replace(/\r$/, "");
            }
            if (rest.length > MAX_EVENT) {
                throw tooLarge();
            }
        }
    } finally {
        // The connection ends where the reader of the events wants no more. A silent one may not even do that.
        reader.cancel().catch(() => undefined);
    }
}

/** Waits for a value, but not longer than the limit. */
async function within<T>(limit: number, value: Promise<T>): Promise<T> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const silence = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new SilentStream(`nothing came for ${limit} ms`)), limit);
    });
    try {
        return await Promise.race([value, silence]);
    } finally {
        clearTimeout(timer);
    }
}

function decode(decoder: TextDecoder, bytes: Uint8Array): string {
    try {
        return decoder.decode(bytes, { stream: true });
    } catch {
        throw new MalformedStream("a stream is not in UTF-8");
    }
}

function tooLarge(): MalformedStream {
    return new MalformedStream(`an event of a stream has more than ${MAX_EVENT} characters`);
}
