import { expect, test } from "vitest";
import { breakLine, indent, outdent, type TextEdit } from "../src/model/editing";

/** Applies an edit, and shows the selection with brackets. */
function after(text: string, { from, to, replacement, selection: [start, end] }: TextEdit): string {
    const whole = text.slice(0, from) + replacement + text.slice(to);
    return `${whole.slice(0, start)}[${whole.slice(start, end)}]${whole.slice(end)}`;
}

test("tab inserts an indent, or indents the selected lines", () => {
    expect(after("ab", indent("ab", 1, 1))).toBe("a  []b");
    expect(after("a\nb\n\nc", indent("a\nb\n\nc", 0, 5))).toBe("[  a\n  b\n\n]c".replace("\n]c", "]\nc"));
});

test("shift and tab take an indent from the lines", () => {
    expect(after("a\n  bc", outdent("a\n  bc", 5, 5))).toBe("a\nb[]c");
    expect(after("    a\n b", outdent("    a\n b", 0, 8))).toBe("[  a\nb]");
    expect(after("  a", outdent("  a", 0, 0))).toBe("[]a");
});

test("a new line has the indent of the one before", () => {
    expect(after("x:\n  y: 1", breakLine("x:\n  y: 1", 9, 9))).toBe("x:\n  y: 1\n  []");
    expect(after("x", breakLine("x", 1, 1))).toBe("x\n[]");
    expect(after("    x", breakLine("    x", 2, 2))).toBe("  \n  []  x");
});
