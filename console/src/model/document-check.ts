/** The check of a document by the registry. */
import { type A2SRegistry, type Diagnostic, type FindabilityReport, InvalidDocument } from "@a2s/core";

/** The result of a check. */
export type DocumentCheck =
    | { kind: "none" }
    | { kind: "valid"; report: FindabilityReport }
    | { kind: "rejected"; diagnostics: Diagnostic[] }
    | { kind: "failed"; error: unknown };

/** Checks a document. Returns undefined when the check was aborted, because its result does not count. */
export async function checkDocument(
    registry: Pick<A2SRegistry, "validate">,
    text: string,
    signal: AbortSignal,
): Promise<DocumentCheck | undefined> {
    try {
        const report = await registry.validate(text, { signal });
        return signal.aborted ? undefined : { kind: "valid", report };
    } catch (error) {
        return signal.aborted ? undefined : checkOfError(error);
    }
}

/** Returns the result that an error of a check or of a publication stands for. */
export function checkOfError(error: unknown): DocumentCheck {
    return error instanceof InvalidDocument
        ? { kind: "rejected", diagnostics: error.diagnostics }
        : { kind: "failed", error };
}

type TextResult = FindabilityReport["texts"][number];

/** Returns true when a search for the text has the document as its first hit. */
export function isFirst({ rank, fits }: TextResult): boolean {
    return rank === 1 && fits;
}

/** Returns the number of texts that find the document first, in words. */
export function countFirst({ texts }: FindabilityReport): string {
    const count = texts.filter(isFirst).length;
    if (texts.every(({ from }) => from === "description")) {
        return `Its description ${count > 0 ? "finds" : "does not find"} it first.`;
    }
    if (count === texts.length) {
        return "Each of its example intents finds it first.";
    }
    return `${count === 0 ? "None" : count} of its ${texts.length} example intents ${count > 1 ? "find" : "finds"} it first.`;
}
