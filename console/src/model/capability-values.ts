/** Values of JSON of which nothing is known, read without failing. Pure. */

export type Members = Record<string, unknown>;

/** Returns the members of an object, or none. */
export function membersOf(value: unknown): Members {
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

/** Returns the items of a list, or none. */
export function itemsOf(value: unknown): unknown[] {
    return Array.isArray(value) ? value : [];
}

/** Returns a text that is not empty, or undefined. */
export function textOf(value: unknown): string | undefined {
    return typeof value === "string" && value !== "" ? value : undefined;
}

/** Returns the texts of a list, or none. */
export function textsOf(value: unknown): string[] {
    return itemsOf(value).filter((item): item is string => typeof item === "string");
}

/** Returns a value as JSON with sorted keys, so that equal values have equal texts. */
export function sortedJson(value: unknown): string {
    return (
        JSON.stringify(value, (_, member) =>
            typeof member === "object" && member !== null && !Array.isArray(member)
                ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
                : member,
        ) ?? "undefined"
    );
}
