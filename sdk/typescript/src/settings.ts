/** Settings of a registry: arguments, the environment, and the files of `a2s up`. */
import { asError, InvalidInput, messageOf } from "./errors.js";

const DEFAULT_URL = "http://127.0.0.1:8740";

/** Further tries of a request, and pauses. Times are in milliseconds. */
export interface RetryOptions {
    /** The largest number of attempts (3). */
    attempts?: number;
    /** The pause after the first attempt (500); each further one is twice as long, up to 10,000, give or take 25 %. */
    pause?: number;
    /** The longest pause (60,000). If A2S wants a longer one, the request is not tried again. */
    maxPause?: number;
    /** The time, in pauses, for which a lost stream or a run that is waited for is tried again (300,000). */
    reconnect?: number;
    /** The silence after which a stream counts as lost (45,000). A2S writes into an idle stream every 15 seconds. */
    idleTimeout?: number;
    /** The pause between two looks at a run that waits for an approval (2,000). */
    approvalPause?: number;
    /** Makes the pauses. */
    sleep?: (milliseconds: number, signal: AbortSignal | undefined) => Promise<void>;
}

/** Optional settings of a registry. */
export interface RegistryOptions {
    /** The token. Without it: `A2S_TOKEN`, or the file of `a2s up` if the address is on this machine. */
    token?: string | undefined;
    /** Whether the token goes over plain HTTP to other machines, too. Without it: `A2S_ALLOW_INSECURE_TOKENS`. */
    allowInsecureTokens?: boolean | undefined;
    /** The time limit of each request, in milliseconds (30,000). Streams have that of their silence. */
    timeout?: number;
    /** How a request is tried again. */
    retry?: RetryOptions;
    /** The end user for whom a token with the scope `delegate` acts. */
    onBehalfOf?: string;
    /** Sends the requests, instead of the global `fetch`. */
    fetch?: typeof globalThis.fetch;
}

/** Settings that are complete. */
export interface Settings {
    url: string;
    findToken: () => Promise<string | undefined>;
    onBehalfOf: string | undefined;
    timeout: number;
    retry: Required<RetryOptions>;
    fetch: typeof globalThis.fetch;
}

/** Completes the settings of a registry. */
export function completeSettings(address: string | undefined, options: RegistryOptions): Settings {
    const url = parseAddress(address ?? (environment("A2S_URL") || DEFAULT_URL));
    const known = knownToken(url, options);
    let token: Promise<string | undefined> | undefined;
    return {
        url: url.href.replace(/\/+$/, ""),
        findToken: () => {
            token ??= known || !isLoopback(url.hostname) ? Promise.resolve(known) : readTokenFile();
            return token;
        },
        onBehalfOf: options.onBehalfOf,
        timeout: options.timeout ?? 30_000,
        retry: {
            attempts: options.retry?.attempts ?? 3,
            pause: options.retry?.pause ?? 500,
            maxPause: options.retry?.maxPause ?? 60_000,
            reconnect: options.retry?.reconnect ?? 300_000,
            idleTimeout: options.retry?.idleTimeout ?? 45_000,
            approvalPause: options.retry?.approvalPause ?? 2_000,
            sleep: options.retry?.sleep ?? sleep,
        },
        fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    };
}

function parseAddress(address: string): URL {
    try {
        const url = new URL(address);
        if (!/^https?:$/.test(url.protocol)) {
            throw new TypeError("its scheme is not http or https");
        }
        if (url.username !== "" || url.password !== "") {
            throw new TypeError("it has a user; give the token as an option");
        }
        url.search = "";
        url.hash = "";
        return url;
    } catch (error) {
        throw new InvalidInput(`the address of A2S is not valid: ${messageOf(error)}`, {
            hint: `Give an address such as ${DEFAULT_URL}, or set A2S_URL.`,
            cause: asError(error),
        });
    }
}

/**
 * Returns the token of the options or of the environment. A2S_TOKEN belongs to the origin of A2S_URL; without
 * A2S_URL, to this machine.
 *
 * @throws InvalidInput for a token that would leave this machine over plain HTTP
 */
function knownToken(url: URL, options: RegistryOptions): string | undefined {
    const token = options.token || (ownsToken(url) ? environment("A2S_TOKEN") : undefined);
    const insecure =
        options.allowInsecureTokens ?? /^(true|1)$/.test(environment("A2S_ALLOW_INSECURE_TOKENS") ?? "");
    if (token && url.protocol !== "https:" && !isLoopback(url.hostname) && !insecure) {
        throw new InvalidInput(`the SDK does not send a token to \`${url.hostname}\` over plain http`, {
            hint: "Use an https address. If the network itself is protected, allow it with the option `allowInsecureTokens` or with A2S_ALLOW_INSECURE_TOKENS=true.",
        });
    }
    return token;
}

/** Returns whether A2S_TOKEN is meant for the address. */
function ownsToken(url: URL): boolean {
    const home = environment("A2S_URL");
    return home ? parseAddress(home).origin === url.origin : isLoopback(url.hostname);
}

function isLoopback(host: string): boolean {
    return host === "localhost" || host === "[::1]" || /^127(\.\d+){3}$/.test(host);
}

/** Returns the token that `a2s up` wrote for its owner, where there are files. */
async function readTokenFile(): Promise<string | undefined> {
    const home = environment("HOME");
    const share = environment("XDG_DATA_HOME") || (home && `${home}/.local/share`);
    const folder = environment("A2S_DATA_DIR") || (share && `${share}/a2s`);
    if (!folder) {
        return undefined;
    }
    try {
        // Bundlers for browsers must not look for the module.
        const name = "node:fs/promises";
        const files: typeof import("node:fs/promises") = await import(/* @vite-ignore */ name);
        return (await files.readFile(`${folder}/token`, "utf8")).trim() || undefined;
    } catch {
        // Without a file there is no token: searching and reading need none on this machine.
        return undefined;
    }
}

function environment(name: string): string | undefined {
    return globalThis.process?.env?.[name] || undefined;
}

function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
        const abort = () => {
            clearTimeout(timer);
            reject(signal?.reason);
        };
        const timer = setTimeout(() => {
            signal?.removeEventListener("abort", abort);
            resolve();
        }, milliseconds);
        if (signal?.aborted) {
            abort();
        } else {
            signal?.addEventListener("abort", abort, { once: true });
        }
    });
}
