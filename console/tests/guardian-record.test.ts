import { expect, test } from "vitest";
import {
    grouped,
    isPreview,
    outcomeOf,
    requesterOf,
    runOf,
    shadowOf,
    subjectOf,
} from "../src/model/guardian-record";

const RECORD = {
    seq: 7,
    event: "decision",
    method: "steps/toolCallResult",
    decision: "deny",
    tool: "Pay.send",
    user: "ada",
    caller: "ci",
    step: "all/send[2]",
    capability: { name: "Pay", run: "0199" },
    shadow: { differs: true, decision: "allow", message: "Allowed by policy." },
};

test("a record is told in words", () => {
    expect(subjectOf(RECORD)).toEqual({ when: "after", what: "Pay.send" });
    expect(requesterOf(RECORD)).toBe("ada by ci");
    expect(requesterOf({ user: "ada", caller: "ada" })).toBe("ada");
    expect(requesterOf({ caller: "ci" })).toBe("an unnamed user by ci");
    expect(runOf(RECORD)).toBe("/runs/0199?step=all%2Fsend%5B2%5D");
    expect(runOf({ step: "a" })).toBeUndefined();
    expect(shadowOf(RECORD)).toEqual({ decision: "allow", message: "Allowed by policy." });
    expect(shadowOf({ shadow: { differs: false } })).toBeUndefined();
    expect(isPreview({ capability: { preview: true } })).toBe(true);
});

test("a step that waits for a person is not told as denied", () => {
    expect(outcomeOf(RECORD)).toBe("deny");
    expect(outcomeOf({ decision: "deny", approval: { is: "asked" } })).toBe("approve");
    expect(outcomeOf({ decision: "allow", approval: { is: "used" } })).toBe("allow");
});

test("a record of another form is no error", () => {
    const odd = { tool: 5, capability: "x", approval: null, method: [] };
    expect([subjectOf(odd), outcomeOf(odd), runOf(odd), requesterOf(odd)]).toEqual([
        { when: "", what: "" },
        "",
        undefined,
        "",
    ]);
});

test("a decision that is asked for again is told once", () => {
    const again = { ...RECORD, seq: 6 };
    const other = { ...RECORD, seq: 5, tool: "Pay.check" };
    const ownless = { seq: 4, event: "decision" };
    const groups = grouped([RECORD, again, other, ownless, { ...ownless, seq: 3 }]);
    expect(groups.map(({ record, count }) => [record["seq"], count])).toEqual([
        [7, 2],
        [5, 1],
        [4, 1],
        [3, 1],
    ]);
});
