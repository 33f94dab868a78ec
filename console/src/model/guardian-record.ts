/** Records of the guardian's audit log, in the words of a page. Pure. */

/** A record as the log has it; which members it has depends on its event. */
export type GuardianRecord = Record<string, unknown>;

function member(value: unknown, ...path: string[]): unknown {
    return path.reduce(
        (inner, name) =>
            typeof inner === "object" && inner !== null
                ? (inner as Record<string, unknown>)[name]
                : undefined,
        value,
    );
}

/** The text at a place of a record, or an empty one. */
export function textAt(record: GuardianRecord, ...path: string[]): string {
    const value = member(record, ...path);
    return typeof value === "string" ? value : "";
}

/** The texts of a list in a record. */
export function textsAt(record: GuardianRecord, ...path: string[]): string[] {
    const value = member(record, ...path);
    return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

export function numberOf(record: GuardianRecord): number {
    return typeof record["seq"] === "number" ? record["seq"] : 0;
}

/** What is decided: a word, when, and about what. */
export function subjectOf(record: GuardianRecord): { when: string; what: string } {
    const method = textAt(record, "method");
    const whens: Record<string, string> = {
        "steps/toolCallRequest": "before",
        "steps/toolCallResult": "after",
    };
    return { when: whens[method] ?? "", what: textAt(record, "tool") || method };
}

/** The outcome of a decision: what a person approves is no plain permission. */
export function outcomeOf(record: GuardianRecord): string {
    const isAsked = ["asked", "known"].includes(textAt(record, "approval", "is"));
    return isAsked ? "approve" : textAt(record, "decision");
}

/** The run and the step of a record, for the link to them. */
export function runOf(record: GuardianRecord): string | undefined {
    const run = textAt(record, "capability", "run");
    const step = textAt(record, "step");
    if (run === "") {
        return undefined;
    }
    return step === "" ? `/runs/${run}` : `/runs/${run}?step=${encodeURIComponent(step)}`;
}

/** Decisions that repeat the one after them, about the same step of the same run, are counted with it. */
export function grouped(records: GuardianRecord[]): { record: GuardianRecord; count: number }[] {
    const groups: { record: GuardianRecord; count: number; key: string }[] = [];
    for (const record of records) {
        const key = JSON.stringify([
            runOf(record) ?? numberOf(record),
            subjectOf(record),
            outcomeOf(record),
            isPreview(record),
        ]);
        const last = groups.at(-1);
        if (last?.key === key) {
            last.count += 1;
        } else {
            groups.push({ record, count: 1, key });
        }
    }
    return groups;
}

/** Who asked, and the token that acts for them. */
export function requesterOf(record: GuardianRecord): string {
    const [user, caller] = [textAt(record, "user"), textAt(record, "caller")];
    return caller === "" || caller === user ? user : `${user || "an unnamed user"} by ${caller}`;
}

/** Decisions of plans are no steps. */
export function isPreview(record: GuardianRecord): boolean {
    return member(record, "capability", "preview") === true;
}

/** What the shadow policy would have decided, when that is something else. */
export function shadowOf(record: GuardianRecord): { decision: string; message: string } | undefined {
    if (member(record, "shadow", "differs") !== true) {
        return undefined;
    }
    return {
        decision: textAt(record, "shadow", "decision"),
        message: textAt(record, "shadow", "message"),
    };
}
