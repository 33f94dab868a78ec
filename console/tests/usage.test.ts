import { expect, test } from "vitest";
import { barsOf, type Counts, roundUp, successOf } from "../src/model/usage";

const NONE: Counts = { runs: 0, succeeded: 0, failed: 0, denied: 0, cancelled: 0, open: 0 };

test("bars are stacked from the bottom", () => {
    const counts = { ...NONE, runs: 10, succeeded: 5, failed: 2, cancelled: 1, open: 2 };
    const [first, second] = barsOf([counts, NONE], 20);
    expect(first?.map(({ outcome, y, height }) => [outcome, y, height])).toEqual([
        ["succeeded", 0, 0.25],
        ["failed", 0.25, 0.1],
        ["other", 0.35, 0.15],
    ]);
    expect(first?.every(({ x, width }) => x === 0 && width === 0.5)).toBe(true);
    expect(second).toEqual([]);
    expect(barsOf([], 1)).toEqual([]);
});

test("an axis ends at a round number", () => {
    expect([0, 1, 2, 3, 7, 11, 501, 1000, 1001].map(roundUp)).toEqual([1, 1, 2, 5, 10, 20, 1000, 1000, 2000]);
});

test("success is a share of what has ended", () => {
    expect(successOf(NONE)).toBe("–");
    expect(successOf({ ...NONE, runs: 3, open: 3 })).toBe("–");
    expect(successOf({ ...NONE, runs: 5, succeeded: 2, failed: 1, open: 2 })).toBe("66.7 %");
});
