/** The outcomes of a version's runs as parts of a whole. Pure. */
import type { CapabilityStats } from "@a2s/core";

export interface Share {
    label: string;
    count: number;
    /** 0 to 1. */
    share: number;
    kind: "good" | "bad" | "quiet";
}

/** Returns the runs by outcome. Failures of callers and guardians do not count against a capability. */
export function sharesOf({ runs, successes, faults }: CapabilityStats): Share[] {
    const others = Math.max(0, runs - successes - faults);
    const share = (count: number) => (runs === 0 ? 0 : count / runs);
    return [
        { label: "Succeeded", count: successes, share: share(successes), kind: "good" },
        {
            label: "Failed by the capability or its services",
            count: faults,
            share: share(faults),
            kind: "bad",
        },
        { label: "Failed otherwise", count: others, share: share(others), kind: "quiet" },
    ];
}
