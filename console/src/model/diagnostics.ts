/** The diagnostics of a document: their order, their lines, and the checksum that they state. Pure. */
import type { Diagnostic } from "@a2s/core";

/** The mark of a line that has diagnostics. */
export interface LineMarker {
    line: number;
    severity: Diagnostic["severity"];
    /** The messages of its diagnostics, one a line. */
    message: string;
}

/** Returns the diagnostics in the order of the text. Those without a position come first. */
export function sortDiagnostics(diagnostics: readonly Diagnostic[]): Diagnostic[] {
    return diagnostics.toSorted((a, b) => a.line - b.line || a.column - b.column);
}

/** Returns one marker for each line with diagnostics. An error hides a warning. */
export function markersOf(diagnostics: readonly Diagnostic[]): LineMarker[] {
    const markers = new Map<number, LineMarker>();
    for (const { line, severity, message } of sortDiagnostics(diagnostics)) {
        const known = markers.get(line);
        if (line === 0) {
            continue;
        }
        if (known === undefined) {
            markers.set(line, { line, severity, message });
        } else {
            known.message += `\n${message}`;
            known.severity = known.severity === "error" ? "error" : severity;
        }
    }
    return [...markers.values()];
}

/** Returns the number of errors and warnings in words. */
export function countInWords(diagnostics: readonly Diagnostic[]): string {
    const errors = diagnostics.filter(({ severity }) => severity === "error").length;
    const warnings = diagnostics.length - errors;
    const parts = [plural(errors, "error"), plural(warnings, "warning")];
    return parts.filter((part) => !part.startsWith("0 ")).join(", ");
}

/** Returns a number with its noun. */
export function plural(count: number, noun: string): string {
    return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** Returns the number of lines of a text. An empty text has one. */
export function countLines(text: string): number {
    let count = 1;
    for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) {
        count++;
    }
    return count;
}

/** Returns the index of a position. Lines and columns count from 1, columns in characters. */
export function offsetOf(text: string, line: number, column: number): number {
    let start = 0;
    for (let count = 1; count < line; count++) {
        const next = text.indexOf("\n", start);
        if (next === -1) {
            return text.length;
        }
        start = next + 1;
    }
    const next = text.indexOf("\n", start);
    const content = text.slice(start, next === -1 ? text.length : next);
    // Characters beyond U+FFFF take two units of a string.
    return start + [...content].slice(0, Math.max(0, column - 1)).join("").length;
}

const CHECKSUM_CODES = ["A2S030", "A2S031"];

/** Returns the right checksum of a document, which the diagnostic about a missing or wrong one states. */
export function rightChecksum(diagnostics: readonly Diagnostic[]): string | undefined {
    const about = diagnostics.find(({ code }) => CHECKSUM_CODES.includes(code));
    return about?.message.match(/sha256:[0-9a-f]{64}/g)?.at(-1);
}
