/** A run as the tree of its steps: a fold over its events. Pure. */
import type { Decision, Event, RunError } from "@a2s/core";

export type StepStatus = "running" | "waiting" | "succeeded" | "failed" | "denied" | "skipped" | "cancelled";

/** One step of a run. */
export interface StepNode {
    path: string;
    depth: number;
    kind: string;
    status: StepStatus;
    /** Times in milliseconds since 1970. */
    startedAt: number;
    endedAt: number | undefined;
    attempts: number;
    method: string | undefined;
    url: string | undefined;
    httpStatus: number | undefined;
    decisions: Decision[];
    warnings: string[];
    outputs: Record<string, unknown> | undefined;
    error: RunError | undefined;
}

/** A run, as far as its events tell. */
export interface RunTree {
    /** The steps in the order of their places. */
    steps: StepNode[];
    byPath: Map<string, StepNode>;
    startedAt: number | undefined;
    endedAt: number | undefined;
    last: number;
    /** The times of the events, in order. */
    times: number[];
}

export function emptyTree(): RunTree {
    return { steps: [], byPath: new Map(), startedAt: undefined, endedAt: undefined, last: 0, times: [] };
}

/** The step around a step, or the one that it is an iteration of; undefined at the top. */
export function parentOf(path: string): string | undefined {
    if (path.endsWith("]")) {
        return path.slice(0, path.lastIndexOf("["));
    }
    return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : undefined;
}

/** The number of the steps around a step. */
export function depthOf(path: string): number {
    const parent = parentOf(path);
    return parent === undefined ? 0 : depthOf(parent) + 1;
}

/** Applies an event to a tree. Events that it has seen already change nothing. */
export function apply(tree: RunTree, event: Event): void {
    if (event.seq <= tree.last) {
        return;
    }
    tree.last = event.seq;
    const at = Date.parse(event.at);
    tree.startedAt ??= at;
    if (tree.times.length === 0 || at > (tree.times.at(-1) ?? 0)) {
        tree.times.push(at);
    }
    if (event.type === "run_finished") {
        tree.endedAt = at;
        for (const step of tree.steps.filter((step) => step.endedAt === undefined)) {
            finish(step, event.status === "cancelled" ? "cancelled" : "failed", at);
        }
        return;
    }
    if (!("step" in event) || typeof event.step !== "string") {
        return;
    }
    const step = stepOf(tree, event.step, at);
    switch (event.type) {
        case "step_started":
            step.kind = event.kind;
            break;
        case "decided":
            step.decisions.push(event.decision);
            break;
        case "sending":
            step.attempts = event.attempt;
            step.method = event.method;
            step.url = event.url;
            break;
        case "received":
            step.httpStatus = event.status;
            break;
        case "warned":
            step.warnings.push(event.message);
            break;
        case "approval_requested":
            step.status = "waiting";
            break;
        case "step_finished":
            step.outputs = event.outputs;
            finish(step, "succeeded", at);
            break;
        case "step_failed":
            step.error = event.error;
            finish(step, outcomeOf(event.error), at);
            break;
        case "step_skipped":
            finish(step, "skipped", at);
            break;
        default:
            break;
    }
}

function outcomeOf({ code, cause }: RunError): StepStatus {
    if (code === "A2S370") {
        return "cancelled";
    }
    return cause === "guardian" ? "denied" : "failed";
}

function finish(step: StepNode, status: StepStatus, at: number): void {
    step.status = status;
    step.endedAt = at;
}

function stepOf(tree: RunTree, path: string, at: number): StepNode {
    const known = tree.byPath.get(path);
    if (known !== undefined) {
        return known;
    }
    const step: StepNode = {
        path,
        depth: depthOf(path),
        kind: "task",
        status: "running",
        startedAt: at,
        endedAt: undefined,
        attempts: 0,
        method: undefined,
        url: undefined,
        httpStatus: undefined,
        decisions: [],
        warnings: [],
        outputs: undefined,
        error: undefined,
    };
    // A step follows its parent and all that is within that.
    const parent = parentOf(path);
    const isWithin = (other: string | undefined): boolean =>
        other !== undefined && (other === parent || isWithin(parentOf(other)));
    const last = parent === undefined ? -1 : tree.steps.findLastIndex((other) => isWithin(other.path));
    tree.steps.splice(last === -1 ? tree.steps.length : last + 1, 0, step);
    tree.byPath.set(path, step);
    return step;
}
