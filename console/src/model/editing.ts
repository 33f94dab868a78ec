/** Edits of the text of an editor by keys. Pure. */

/** A replacement of a part of a text, and the selection after it. */
export interface TextEdit {
    from: number;
    to: number;
    replacement: string;
    selection: [start: number, end: number];
}

const INDENT = "  ";

/** Indents the selected lines, or inserts an indent at the cursor. */
export function indent(text: string, start: number, end: number): TextEdit {
    if (start === end) {
        const next = start + INDENT.length;
        return { from: start, to: end, replacement: INDENT, selection: [next, next] };
    }
    return changeLines(text, start, end, (line) => (line === "" ? line : INDENT + line));
}

/** Takes one indent from the selected lines. */
export function outdent(text: string, start: number, end: number): TextEdit {
    return changeLines(text, start, end, (line) => line.replace(/^(?: {1,2}|\t)/, ""));
}

/** Begins a line with the indent of the line before it. */
export function breakLine(text: string, start: number, end: number): TextEdit {
    const line = text.slice(text.lastIndexOf("\n", start - 1) + 1, start);
    const replacement = `\n${/^[ \t]*/.exec(line)?.[0] ?? ""}`;
    const next = start + replacement.length;
    return { from: start, to: end, replacement, selection: [next, next] };
}

function changeLines(text: string, start: number, end: number, change: (line: string) => string): TextEdit {
    const from = start === 0 ? 0 : text.lastIndexOf("\n", start - 1) + 1;
    // A selection that ends at the start of a line does not contain this line.
    const last = end > start && text[end - 1] === "\n" ? end - 1 : end;
    const next = text.indexOf("\n", last);
    const to = next === -1 ? text.length : next;
    const before = text.slice(from, to);
    const replacement = before.split("\n").map(change).join("\n");
    if (start !== end) {
        return { from, to, replacement, selection: [from, from + replacement.length] };
    }
    const at = Math.max(from, start + replacement.length - before.length);
    return { from, to, replacement, selection: [at, at] };
}
