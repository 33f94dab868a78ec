import type { Diagnostic } from "@a2s/core";
import { expect, test } from "vitest";
import {
    countInWords,
    countLines,
    markersOf,
    offsetOf,
    rightChecksum,
    sortDiagnostics,
} from "../src/model/diagnostics";

function diagnostic(
    line: number,
    column: number,
    severity: Diagnostic["severity"],
    message = "m",
    code = "A2S010",
) {
    return { line, column, severity, message, code, path: "" };
}

test("diagnostics are in the order of the text", () => {
    const sorted = sortDiagnostics([
        diagnostic(3, 1, "error"),
        diagnostic(0, 0, "error"),
        diagnostic(2, 9, "error"),
        diagnostic(2, 3, "error"),
    ]);
    expect(sorted.map(({ line, column }) => [line, column])).toEqual([
        [0, 0],
        [2, 3],
        [2, 9],
        [3, 1],
    ]);
});

test("a line has one marker, and an error hides a warning", () => {
    const markers = markersOf([
        diagnostic(2, 1, "warning", "a"),
        diagnostic(2, 5, "error", "b"),
        diagnostic(0, 0, "error"),
        diagnostic(4, 1, "warning", "c"),
    ]);
    expect(markers).toEqual([
        { line: 2, severity: "error", message: "a\nb" },
        { line: 4, severity: "warning", message: "c" },
    ]);
});

test("errors and warnings are counted in words", () => {
    expect(
        countInWords([diagnostic(1, 1, "error"), diagnostic(1, 1, "error"), diagnostic(1, 1, "warning")]),
    ).toBe("2 errors, 1 warning");
    expect(countInWords([diagnostic(1, 1, "warning")])).toBe("1 warning");
});

test("a position is found in a text with characters of two units", () => {
    const text = "a: 1\n😀b: 2\nc";
    expect(text.slice(offsetOf(text, 2, 2))).toBe("b: 2\nc");
    expect(offsetOf(text, 1, 0)).toBe(0);
    expect(offsetOf(text, 1, 99)).toBe(4);
    expect(offsetOf(text, 9, 1)).toBe(text.length);
    expect([countLines(""), countLines(text)]).toEqual([1, 3]);
});

test("the right checksum is the last one that a diagnostic about it states", () => {
    const [a, b] = ["a".repeat(64), "b".repeat(64)];
    const message = `the document states the checksum sha256:${a}, but its content has sha256:${b}`;
    expect(rightChecksum([diagnostic(1, 1, "error", message, "A2S031")])).toBe(`sha256:${b}`);
    expect(rightChecksum([diagnostic(1, 1, "error", message, "A2S010")])).toBeUndefined();
});
