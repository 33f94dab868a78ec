import { type FindabilityReport, InvalidDocument } from "@a2s/core";
import { expect, test } from "vitest";
import { checkDocument, countFirst } from "../src/model/document-check";

function report(ranks: (number | null)[], from: "intent" | "description" = "intent"): FindabilityReport {
    const texts = ranks.map((rank) => ({ text: "t", from, rank, score: 1, similarity: 1, fits: true }));
    return { name: "N", version: "1.0.0", texts };
}

const registry = (validate: () => Promise<FindabilityReport>) => ({ validate });

test("the result of a check says what the registry said", async () => {
    const { signal } = new AbortController();
    const good = report([1]);
    expect(
        await checkDocument(
            registry(async () => good),
            "t",
            signal,
        ),
    ).toEqual({ kind: "valid", report: good });
    const diagnostics = [
        { code: "A2S010", severity: "error" as const, message: "m", path: "", line: 1, column: 1 },
    ];
    const invalid = new InvalidDocument("1 error", {
        problem: { code: "A2S210", detail: "", status: 422, title: "", type: "", diagnostics },
    });
    expect(
        await checkDocument(
            registry(() => Promise.reject(invalid)),
            "t",
            signal,
        ),
    ).toEqual({ kind: "rejected", diagnostics });
    const away = new Error("away");
    expect(
        await checkDocument(
            registry(() => Promise.reject(away)),
            "t",
            signal,
        ),
    ).toEqual({ kind: "failed", error: away });
});

test("the result of an aborted check does not count", async () => {
    const control = new AbortController();
    control.abort();
    expect(
        await checkDocument(
            registry(async () => report([1])),
            "t",
            control.signal,
        ),
    ).toBeUndefined();
    expect(
        await checkDocument(
            registry(() => Promise.reject(new Error("x"))),
            "t",
            control.signal,
        ),
    ).toBeUndefined();
});

test("the texts that find a document first are counted in words", () => {
    expect(countFirst(report([1, 1]))).toBe("Each of its example intents finds it first.");
    expect(countFirst(report([1, 2, null]))).toBe("1 of its 3 example intents finds it first.");
    expect(countFirst(report([2, null]))).toBe("None of its 2 example intents finds it first.");
    expect(countFirst(report([2], "description"))).toBe("Its description does not find it first.");
});
