/** The approvals, read once for the badge and the page about them. */
import type { Approval } from "@a2s/core";
import { registry } from "./api";

const INTERVAL = 3000;

const state = $state<{ approvals: Approval[]; error: unknown; isRead: boolean }>({
    approvals: [],
    error: undefined,
    isRead: false,
});

/** Returns all known approvals, the oldest first. */
export function approvals(): Approval[] {
    return state.approvals;
}

/** Returns the error of the last reading. */
export function approvalsError(): unknown {
    return state.error;
}

/** Returns true after the first reading. */
export function areApprovalsRead(): boolean {
    return state.isRead;
}

/** Reads the approvals now. */
export async function readApprovals(): Promise<void> {
    try {
        state.approvals = await registry.listApprovals({ status: "all" });
        state.error = undefined;
    } catch (problem) {
        state.error = problem;
    }
    state.isRead = true;
}

/** Reads the approvals again and again, until the returned function is called. */
export function watchApprovals(): () => void {
    readApprovals();
    const timer = setInterval(readApprovals, INTERVAL);
    return () => clearInterval(timer);
}
