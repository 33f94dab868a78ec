/** Checksums of documents, computed on this side. */
import { A2SError, asError, ChecksumMismatch, InvalidDocument, messageOf } from "./errors.js";
import { canonicalize, type JsonValue, parseJson } from "./json.js";
import type { CapabilityRef } from "./types.js";
import { checkVersion, fullVersion } from "./versions.js";

/** A document of a capability, as the registry serves it. */
export interface CapabilityDocument {
    /** The version of the language. */
    a2s: string;
    /** The name of the capability. */
    name: string;
    /** The version as the document writes it, such as `1.0`. */
    version: string;
    /** The checksum that the document states. */
    checksum: string;
    /** The function that the capability performs. */
    description: string;
    /** Every other member. */
    [member: string]: unknown;
}

/** A reference to a capability. Without a version it means the latest, without a checksum any content. */
export interface Reference {
    name: string;
    version?: string | null;
    checksum?: string | null;
}

/** The largest number of levels of a document. A scalar has one. */
const MAX_LEVELS = 64;

/**
 * Returns the checksum of a document: `sha256:` and the digest of its form of RFC 8785 without the member
 * `checksum`. A text must be JSON; it is read strictly.
 *
 * @throws SyntaxError or TypeError for what a document cannot contain: what `parseJson` and `canonicalize`
 * refuse, integral numbers beyond ±(2⁵³ − 1), and more than 64 levels
 */
export async function computeChecksum(document: object | string): Promise<string> {
    const value = typeof document === "string" ? parseJson(document) : document;
    checkLimits(value, 1);
    const bytes = new TextEncoder().encode(canonicalize(withoutChecksum(value)));
    if (globalThis.crypto?.subtle === undefined) {
        throw new A2SError("this page cannot compute checksums", {
            hint: "Browsers allow it on pages of https or of this machine only.",
        });
    }
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    return `sha256:${Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function withoutChecksum(value: unknown): unknown {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
        return value;
    }
    return Object.fromEntries(Object.entries(value).filter(([name]) => name !== "checksum"));
}

function checkLimits(value: unknown, level: number): void {
    if (level > MAX_LEVELS) {
        throw new TypeError(`a document with more than ${MAX_LEVELS} levels`);
    }
    if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value)) {
        throw new TypeError(`a document with an integral number beyond ±${Number.MAX_SAFE_INTEGER}`);
    }
    if (typeof value === "object" && value !== null) {
        for (const member of Object.values(value)) {
            checkLimits(member, level + 1);
        }
    }
}

/**
 * Returns the document of a text if it has the expected name, version and checksum. Without an expected
 * checksum, it is the one that the document states.
 *
 * @throws ChecksumMismatch; Drifted for another version; InvalidDocument if the text is not a document
 */
export async function readDocument(text: string, expected: Reference): Promise<CapabilityDocument> {
    const { name, version, checksum } = expected;
    let document: JsonValue;
    let computed: string;
    try {
        document = parseJson(text);
        if (!isDocument(document)) {
            throw new TypeError("it is not a document");
        }
        computed = await computeChecksum(document);
    } catch (error) {
        if (error instanceof A2SError) {
            throw error;
        }
        throw new InvalidDocument(`the document of \`${name}\` cannot be trusted: ${messageOf(error)}`, {
            cause: asError(error),
        });
    }
    compare(document, computed, checksum ?? document.checksum);
    checkVersion(document, name, version);
    return document;
}

/**
 * Returns a document if it has the checksum that it states.
 *
 * @throws ChecksumMismatch
 */
export async function checkDocument(document: CapabilityDocument): Promise<CapabilityDocument> {
    return compare(document, await computeChecksum(document), document.checksum);
}

function compare(document: CapabilityDocument, computed: string, expected: unknown): CapabilityDocument {
    // The prefix may be missing, and a document may state anything.
    if (computed !== expected && computed !== `sha256:${expected}`) {
        throw new ChecksumMismatch(document.name, String(expected), computed);
    }
    return document;
}

/** Returns whether a value is a document, rather than a reference to one. */
export function isDocument<T>(value: T): value is T & CapabilityDocument {
    return (
        typeof value === "object" &&
        value !== null &&
        "execution" in value &&
        "name" in value &&
        typeof value.name === "string" &&
        "version" in value &&
        typeof value.version === "string"
    );
}

/** Returns the reference to a document, with the checksum that was computed on this side. */
export async function referenceTo(document: CapabilityDocument): Promise<CapabilityRef> {
    return {
        name: document.name,
        version: fullVersion(document.version),
        checksum: await computeChecksum(document),
    };
}
