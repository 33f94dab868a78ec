/** The places of steps on a timeline, on which time without events takes little room. Pure. */
import type { RunTree, StepNode } from "./run-tree";

/** An idle time shorter than this is drawn at its length, in milliseconds. */
const SHORTEST_GAP = 1000;
/** The share of the timeline that a compressed idle time has. */
const GAP_SHARE = 0.04;

/** An idle time that is compressed: its place on the timeline, and its length in milliseconds. */
export interface Gap {
    from: number;
    to: number;
    length: number;
}

export interface Timeline {
    /** The place of a time, from 0 to 1. */
    at(time: number): number;
    gaps: Gap[];
}

/**
 * The timeline of a run. With `isCompressed`, each time without an event that is longer than all busy time
 * together takes a small fixed part of it.
 */
export function timelineOf(tree: RunTree, now: number, isCompressed: boolean): Timeline {
    const begin = tree.startedAt ?? now;
    const end = Math.max(begin + 1, tree.endedAt ?? now);
    const points = [...tree.times.filter((time) => time > begin && time < end), end];
    const busy = points.reduce(
        (sum, time, index) => {
            const length = time - (points[index - 1] ?? begin);
            return length < SHORTEST_GAP ? sum + length : sum;
        },
        Math.min(SHORTEST_GAP, end - begin) / 10,
    );
    const isGap = (length: number) => isCompressed && length >= SHORTEST_GAP && length > busy;
    const gaps: { from: number; to: number }[] = [];
    points.forEach((time, index) => {
        const from = points[index - 1] ?? begin;
        if (isGap(time - from)) {
            gaps.push({ from, to: time });
        }
    });
    const idle = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
    const shares = gaps.length * GAP_SHARE;
    // Idle times alone fill the timeline when there are very many.
    const gapShare = shares > 0.6 ? 0.6 / gaps.length : GAP_SHARE;
    const perMillisecond = (1 - gaps.length * gapShare) / Math.max(1, end - begin - idle);

    const at = (time: number): number => {
        let place = 0;
        let from = begin;
        for (const gap of gaps) {
            if (time <= gap.from) {
                break;
            }
            place += (gap.from - from) * perMillisecond;
            place += gapShare * Math.min(1, (time - gap.from) / (gap.to - gap.from));
            from = Math.min(time, gap.to);
        }
        place += Math.max(0, time - from) * perMillisecond;
        return Math.min(1, Math.max(0, place));
    };
    return {
        at,
        gaps: gaps.map(({ from, to }) => ({ from: at(from), to: at(to), length: to - from })),
    };
}

/** The part of the timeline that a step takes. */
export function spanOf(timeline: Timeline, step: StepNode, now: number): { from: number; width: number } {
    const from = timeline.at(step.startedAt);
    return { from, width: timeline.at(step.endedAt ?? now) - from };
}
