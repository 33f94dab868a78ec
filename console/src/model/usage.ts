/** Counts over time, as the geometry of a plot and as words. Pure. */

export interface Counts {
    runs: number;
    succeeded: number;
    failed: number;
    denied: number;
    cancelled: number;
    open: number;
}

/** A kind of outcome, from the bottom of a bar to its top. */
export const OUTCOMES = ["succeeded", "failed", "denied", "other"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export function shareOf(counts: Counts, outcome: Outcome): number {
    return outcome === "other" ? counts.cancelled + counts.open : counts[outcome];
}

/** A part of a bar: its place and its size as shares of the plot, from the bottom left. */
export interface BarPart {
    outcome: Outcome;
    x: number;
    y: number;
    width: number;
    height: number;
}

/** A round number that is at least as large: 1, 2 or 5 with zeros. */
export function roundUp(value: number): number {
    if (value <= 1) {
        return 1;
    }
    const magnitude = 10 ** Math.floor(Math.log10(value));
    const step = [1, 2, 5, 10].find((step) => value <= step * magnitude) ?? 10;
    return step * magnitude;
}

/** The parts of the bars, one bar for each interval, up to a largest value. */
export function barsOf(intervals: Counts[], largest: number): BarPart[][] {
    const width = 1 / Math.max(1, intervals.length);
    return intervals.map((counts, at) => {
        let y = 0;
        return OUTCOMES.flatMap((outcome) => {
            const height = shareOf(counts, outcome) / largest;
            const part = { outcome, x: at * width, y, width, height };
            y += height;
            return height > 0 ? [part] : [];
        });
    });
}

/** The share of the runs that have ended which succeeded, in words. */
export function successOf(counts: Counts): string {
    const ended = counts.runs - counts.open;
    return ended === 0 ? "–" : `${Math.round((counts.succeeded / ended) * 1000) / 10} %`;
}
