import type { Event } from "@a2s/core";
import { expect, test } from "vitest";
import { apply, depthOf, emptyTree, parentOf } from "../src/model/run-tree";
import { spanOf, timelineOf } from "../src/model/timeline";

const START = Date.parse("2026-01-02T03:04:05Z");
let seq = 0;

function event(type: string, milliseconds: number, members: object = {}): Event {
    seq += 1;
    const at = new Date(START + milliseconds).toISOString();
    return { v: 1, seq, run: "r", at, type, ...members } as unknown as Event;
}

test("a tree has the steps in the order of their places", () => {
    seq = 0;
    const tree = emptyTree();
    const started = ["all", "all/b", "last", "all/a", "all/b[0]", "all/b[0]/x"];
    for (const step of started) {
        apply(tree, event("step_started", 1, { step, kind: "task" }));
    }
    expect(tree.steps.map(({ path }) => path)).toEqual([
        "all",
        "all/b",
        "all/b[0]",
        "all/b[0]/x",
        "all/a",
        "last",
    ]);
    expect(tree.steps.map(({ depth }) => depth)).toEqual([0, 1, 2, 3, 1, 0]);
});

test("events that came before change nothing", () => {
    seq = 0;
    const tree = emptyTree();
    const first = event("step_started", 0, { step: "a", kind: "task" });
    apply(tree, first);
    apply(tree, event("step_finished", 40, { step: "a", outputs: { n: 1 }, duration_ms: 40 }));
    apply(tree, first);
    expect(tree.steps).toHaveLength(1);
    expect(tree.steps[0]).toMatchObject({ status: "succeeded", outputs: { n: 1 } });
});

test("the end of a run ends its steps", () => {
    seq = 0;
    const tree = emptyTree();
    apply(tree, event("run_started", 0));
    apply(tree, event("step_started", 25, { step: "a", kind: "task" }));
    apply(tree, event("run_finished", 100, { status: "cancelled" }));
    const [step] = tree.steps;
    expect(step?.status).toBe("cancelled");
    expect(step && spanOf(timelineOf(tree, 0, false), step, 0)).toEqual({ from: 0.25, width: 0.75 });
});

test("a path leads outwards one step or iteration at a time", () => {
    expect(parentOf("a/b[2]/c[0]")).toBe("a/b[2]/c");
    expect(parentOf("a/b[2]")).toBe("a/b");
    expect(parentOf("a")).toBeUndefined();
    expect(depthOf("a/b[2]/c[0]")).toBe(4);
});

test("idle time takes little room, and steps keep their order", () => {
    seq = 0;
    const tree = emptyTree();
    apply(tree, event("run_started", 0));
    apply(tree, event("step_started", 100, { step: "ask", kind: "task" }));
    apply(tree, event("approval_requested", 200, { step: "ask" }));
    apply(tree, event("step_finished", 3_600_200, { step: "ask", outputs: {} }));
    apply(tree, event("step_started", 3_600_300, { step: "then", kind: "task" }));
    apply(tree, event("step_finished", 3_600_400, { step: "then", outputs: {} }));
    apply(tree, event("run_finished", 3_600_400, { status: "succeeded" }));
    const plain = timelineOf(tree, 0, false);
    expect(plain.gaps).toEqual([]);
    expect(plain.at(START + 200)).toBeLessThan(0.001);
    const timeline = timelineOf(tree, 0, true);
    expect(timeline.gaps.map(({ length }) => length)).toEqual([3_600_000]);
    const places = [0, 200, 1_800_200, 3_600_200, 3_600_400].map((time) => timeline.at(START + time));
    expect(places.map((place) => Math.round(place * 100))).toEqual([0, 48, 50, 52, 100]);
});

test("a timeline of a run that has just begun is whole", () => {
    expect(timelineOf(emptyTree(), START, true).at(START)).toBe(0);
    expect(timelineOf(emptyTree(), START, true).at(START + 9)).toBe(1);
});
