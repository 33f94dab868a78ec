/** A run as a file: what `a2s runs export` writes, and what its page shows. Pure. */
import type { Event, Run, StepExchange } from "@a2s/core";
import type { GuardianRecord } from "./guardian-record";
import { apply, emptyTree, type RunTree } from "./run-tree";

export interface RunFile {
    /** The version of the format. */
    format: number;
    /** The digest of the page without the run; absent in files of older versions. */
    page?: string;
    /** The time of the export. */
    exported_at: string;
    /** The address of the executor. */
    server: string;
    run: Run;
    events: Event[];
    exchanges: StepExchange[];
    /** The decisions of the guardian about this run; absent when the exporter may not read them. */
    records?: GuardianRecord[];
    /** The digest of the last record of the audit log at the time of the export. */
    log_head?: string;
}

/** The tree of the run, from its events. */
export function treeOf(file: RunFile): RunTree {
    const tree = emptyTree();
    for (const event of file.events) {
        apply(tree, event);
    }
    return tree;
}
