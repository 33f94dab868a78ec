/** The documents that a person writes: their kind, their checksum, and the drafts that the browser keeps. */
import { A2SError, type A2SRegistry, computeChecksum, InvalidDocument } from "@a2s/core";
import { rightChecksum } from "./diagnostics";

/** The largest document, in bytes. */
export const MAX_BYTES = 1 << 20;

/** A document that a person can publish after a change of its names. */
export const EXAMPLE = `# A capability: one request to an HTTP API. Replace the values of the example.
a2s: 1.1.0
name: ReadTideTable
# One sentence. Agents find the capability by it.
description: Reads the times of high and low water at a harbour
# All hosts that the capability may send requests to.
domains: [tides.example.com]
version: "1.0.0"
checksum: "<calculated_checksum>"
authors: [{name: Your Name}]
parameters:
  - name: harbour
    description: Name of the harbour
    type: string
    # The words around the value in a request; \`*\` is the value.
    patterns: ["at *", "in *"]
execution:
  type: sequence
  steps:
    - id: readTides
      format: OpenAPI
      # The description of the service, reduced to one operation.
      task:
        openapi: 3.0.3
        info: {title: Tides, version: "1"}
        servers: [{url: "https://tides.example.com"}]
        paths:
          /harbours/{harbour}/tides:
            get:
              parameters:
                - {name: harbour, in: path, required: true, schema: {type: string}}
              responses: {200: {description: The tides of the day}}
      input_mapping: {harbour: "\${harbour}"}
      # The part of the response that the capability returns, as JSONPath.
      output_mapping: {tides: "$.tides"}
# A run that shows the purpose. Its intent is a request in the words of a user.
examples:
  - intent: when is high tide in Dover
    inputs: {harbour: Dover}
    answers: {readTides: {body: {tides: ["06:12 high", "12:25 low"]}}}
    output: {tides: ["06:12 high", "12:25 low"]}
`;

/** Returns the size of a text in bytes of UTF-8. */
export function sizeOf(text: string): number {
    return new TextEncoder().encode(text).length;
}

/** Returns a text with the line breaks of a text field. */
export function normalizeBreaks(text: string): string {
    return text.replace(/\r\n?/g, "\n");
}

export type TextKind = "empty" | "document" | "openapi";

/** Returns the kind of a text: an OpenAPI description, or else a document. */
export function kindOf(text: string): TextKind {
    if (text.trim() === "") {
        return "empty";
    }
    const isApi = memberOf(text, "openapi") !== undefined || memberOf(text, "swagger") !== undefined;
    return isApi && memberOf(text, "a2s") === undefined ? "openapi" : "document";
}

/** Returns the name that a document states. */
export function nameOf(text: string): string | undefined {
    const value = memberOf(text, "name")?.value.replace(/^["']|["']$/g, "");
    return value && /^[A-Za-z0-9]{1,100}$/.test(value) ? value : undefined;
}

/** Returns a name for a text in a list. */
export function titleOf(text: string): string {
    return kindOf(text) === "openapi" ? "OpenAPI description" : (nameOf(text) ?? "Untitled");
}

/** Returns true when a document states a checksum that is not a placeholder. */
export function hasChecksum(text: string): boolean {
    const value = memberOf(text, "checksum")?.value.replace(/^["']|["']$/g, "") ?? "";
    return /^(?:sha256:)?[0-9a-f]{64}$/.test(value);
}

/** Returns a document with another checksum. Everything else stays as it is written. */
export function withChecksum(text: string, checksum: string): string {
    const known = memberOf(text, "checksum");
    if (known !== undefined) {
        const space = text[known.from - 1] === ":" ? " " : "";
        return `${text.slice(0, known.from)}${space}"${checksum}"${text.slice(known.to)}`;
    }
    const flow = /^\s*\{/.exec(text);
    if (flow !== null) {
        const rest = text.slice(flow[0].length);
        const comma = /^\s*\}/.test(rest) ? "" : ",";
        return `${flow[0]}\n  "checksum": "${checksum}"${comma}${rest}`;
    }
    const after = memberOf(text, "version") ?? memberOf(text, "name");
    const end = after === undefined ? -1 : text.indexOf("\n", after.to);
    const at = after === undefined ? 0 : end === -1 ? text.length : end + 1;
    const lead = at > 0 && text[at - 1] !== "\n" ? "\n" : "";
    return `${text.slice(0, at)}${lead}checksum: "${checksum}"\n${text.slice(at)}`;
}

/** The text of a member's value, and its place. */
interface MemberText {
    value: string;
    from: number;
    to: number;
}

/** Finds a member of the outermost object whose value is on one line. */
function memberOf(text: string, name: string): MemberText | undefined {
    if (/^\s*\{/.test(text)) {
        return flowMember(text, name);
    }
    const pattern = new RegExp(
        `^(?:${name}|"${name}"|'${name}')[ \\t]*:[ \\t]*("[^"\\n]*"|'[^'\\n]*'|[^\\n]*?)[ \\t]*(?:[ \\t]#[^\\n]*)?$`,
        "m",
    );
    const match = pattern.exec(text);
    if (match === null) {
        return undefined;
    }
    const value = match[1] ?? "";
    const colon = match[0].indexOf(":");
    const from = match.index + (value === "" ? colon + 1 : match[0].indexOf(value, colon + 1));
    return { value, from, to: from + value.length };
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\]:,]|[^\s"{}[\]:,]+/g;

function flowMember(text: string, name: string): MemberText | undefined {
    let depth = 0;
    let key: string | undefined;
    let isValue = false;
    for (const { 0: token, index } of text.matchAll(TOKEN)) {
        if (depth === 1 && isValue && key === name) {
            return { value: token, from: index, to: index + token.length };
        }
        if (token === "{" || token === "[") {
            depth++;
        } else if (token === "}" || token === "]") {
            depth--;
        }
        if (depth === 1) {
            isValue = token === ":";
            key = isValue ? key : token.replace(/^"|"$/g, "");
        }
    }
    return undefined;
}

/**
 * Returns a document with its checksum. The SDK computes that of JSON. For YAML, the registry states it when
 * it rejects the document with a placeholder, which it never publishes.
 *
 * @throws the error of a document that has other errors, too
 */
export async function fillChecksum(registry: A2SRegistry, text: string): Promise<string> {
    const checksum = (await jsonChecksum(text)) ?? (await askChecksum(registry, text));
    return withChecksum(text, checksum);
}

async function jsonChecksum(text: string): Promise<string | undefined> {
    try {
        return /^\s*\{/.test(text) ? await computeChecksum(text) : undefined;
    } catch {
        // The text is YAML, or cannot be a document: the registry says so.
        return undefined;
    }
}

async function askChecksum(registry: A2SRegistry, text: string): Promise<string> {
    try {
        await registry.publish(withChecksum(text, "<calculated_checksum>"));
    } catch (error) {
        const checksum = error instanceof InvalidDocument ? rightChecksum(error.diagnostics) : undefined;
        if (checksum === undefined) {
            throw error;
        }
        return checksum;
    }
    throw new A2SError("the registry did not state the checksum of the document");
}

/** A text that the browser keeps under a name. */
export interface StoredDraft {
    name: string;
    text: string;
    /** The time of its last change, in milliseconds since 1970. */
    changedAt: number;
}

const DRAFTS = "a2s.drafts";
const PRESENT = "a2s.present";

/** Returns the drafts of this browser, the last changed one first. */
export function readDrafts(storage: Pick<Storage, "getItem">): StoredDraft[] {
    try {
        const value: unknown = JSON.parse(storage.getItem(DRAFTS) ?? "[]");
        return Array.isArray(value) ? value.filter(isDraft) : [];
    } catch {
        return [];
    }
}

function isDraft(value: unknown): value is StoredDraft {
    const draft = value as Partial<StoredDraft> | null;
    return (
        typeof draft?.name === "string" &&
        typeof draft.text === "string" &&
        typeof draft.changedAt === "number"
    );
}

/** Stores drafts. Throws when the browser has no more space. */
export function writeDrafts(storage: Pick<Storage, "setItem">, drafts: readonly StoredDraft[]): void {
    storage.setItem(DRAFTS, JSON.stringify(drafts));
}

/** Returns the drafts with a text under a name, in the place of the draft that had this name. */
export function withDraft(
    drafts: readonly StoredDraft[],
    name: string,
    text: string,
    now: number,
): StoredDraft[] {
    return [{ name, text, changedAt: now }, ...withoutDraft(drafts, name)];
}

/** Returns the drafts without one of them. */
export function withoutDraft(drafts: readonly StoredDraft[], name: string): StoredDraft[] {
    return drafts.filter((draft) => draft.name !== name);
}

/** Returns a name that no draft has: the wanted one, or one with a number. */
export function freeName(drafts: readonly StoredDraft[], wanted: string): string {
    const isTaken = (name: string) => drafts.some((draft) => draft.name === name);
    let name = wanted;
    for (let count = 2; isTaken(name); count++) {
        name = `${wanted} ${count}`;
    }
    return name;
}

/** The text of the editor, and the draft that it belongs to. */
export interface PresentText {
    text: string;
    name?: string | undefined;
}

/** Returns the text that the editor had when the page was left. */
export function readPresent(storage: Pick<Storage, "getItem">): PresentText {
    try {
        const value: Partial<PresentText> | null = JSON.parse(storage.getItem(PRESENT) ?? "{}");
        return {
            text: typeof value?.text === "string" ? value.text : "",
            name: typeof value?.name === "string" ? value.name : undefined,
        };
    } catch {
        return { text: "" };
    }
}

/** Stores the text of the editor. Throws when the browser has no more space. */
export function writePresent(storage: Pick<Storage, "setItem">, present: PresentText): void {
    storage.setItem(PRESENT, JSON.stringify(present));
}
