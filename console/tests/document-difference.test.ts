// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are templates of documents
import { expect, test } from "vitest";
import { breakingChanges, compareDocuments } from "../src/model/document-difference";

const step = (more: object = {}) => ({
    id: "find",
    format: "OpenAPI",
    task: {
        servers: [{ url: "https://dogapi.dog" }],
        paths: {
            "/walks": {
                get: {
                    parameters: [{ name: "from", in: "query", schema: { type: "string", format: "date" } }],
                    responses: {
                        200: {
                            content: {
                                "application/json": {
                                    schema: { type: "object", properties: { data: { type: "array" } } },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
    input_mapping: { from: "${start}" },
    output_mapping: { walks: "$.data" },
    ...more,
});

const document = (more: object = {}) => ({
    description: "Plans walks",
    domains: ["dogapi.dog"],
    parameters: [{ name: "start" }],
    execution: { type: "sequence", steps: [step()] },
    ...more,
});

function breaking(after: object, before: object = {}): string[] {
    return breakingChanges(compareDocuments(document(before), document(after)));
}

test("the same content has no difference, whatever the order of its members", () => {
    const reordered = Object.fromEntries(Object.entries(document()).reverse());
    expect(compareDocuments(document(), reordered)).toEqual([]);
});

test("a new required input breaks callers, and an optional one does not", () => {
    const start = { name: "start" };
    expect(breaking({ parameters: [start, { name: "days" }] })).toEqual(["Callers must give `days`."]);
    expect(breaking({ parameters: [start, { name: "days", default: 3 }] })).toEqual([]);
    expect(breaking({ parameters: [start, { name: "days", required: false }] })).toEqual([]);
});

test("an input that is gone or became required breaks callers", () => {
    const optional = { parameters: [{ name: "start", default: "today" }] };
    expect(breaking({}, optional)).toEqual(["Callers must give `start`, which was optional."]);
    expect(breaking(optional)).toEqual([]);
    const more = { parameters: [{ name: "start" }, { name: "days", default: 3 }] };
    expect(breaking({}, more)).toEqual(["Callers cannot give `days` any more."]);
});

test("a narrower type or choice breaks callers, and a wider one does not", () => {
    const typed = (more: object) => ({
        parameters: [{ name: "start" }, { name: "n", required: false, ...more }],
    });
    expect(breaking(typed({ type: "integer" }), typed({ type: "number" }))).toEqual([
        "Callers must give `n` as integer; it was number.",
    ]);
    expect(breaking(typed({ type: "number" }), typed({ type: "integer" }))).toEqual([]);
    expect(breaking(typed({}), typed({ type: "integer" }))).toEqual([]);
    expect(breaking(typed({ enum: ["a"] }), typed({ enum: ["a", "b"] }))).toEqual([
        '`n` no longer accepts "b".',
    ]);
    expect(breaking(typed({ enum: ["a", "b"] }), typed({ enum: ["a"] }))).toEqual([]);
    expect(breaking(typed({ type: "string", enum: ["a"] }), typed({ type: "string" }))).toEqual([
        'Callers must give `n` as one of "a".',
    ]);
});

test("an output that is gone or has another type breaks callers", () => {
    const steps = (outputs: object) => ({ execution: { steps: [step({ output_mapping: outputs })] } });
    expect(breaking(steps({ plan: "$.data" }))).toEqual(["Callers no longer get `walks`."]);
    expect(breaking(steps({ walks: { from: "status" } }))).toEqual([
        "Callers get `walks` as integer; it was array.",
    ]);
});

test("a new permission or credential must be provided, and a new host is only shown", () => {
    expect(breaking({ permissions: ["dogs.walk"] })).toEqual([
        "Callers must hold the permission `dogs.walk`.",
    ]);
    const task = {
        ...step().task,
        security: [{ key: [] }],
        components: { securitySchemes: { key: { type: "apiKey" } } },
    };
    expect(breaking({ execution: { steps: [step({ task })] } })).toEqual([
        "The executor needs the credential key at dogapi.dog (apiKey).",
    ]);
    const groups = compareDocuments(document(), document({ domains: ["dogapi.dog", "ntfy.sh"] }));
    expect(groups).toEqual([{ title: "Hosts", changes: [{ kind: "added", name: "ntfy.sh", after: "" }] }]);
});

test("steps are compared by their paths, without the steps within", () => {
    const block = (steps: object[]) => ({ execution: { steps: [{ id: "all", type: "parallel", steps }] } });
    const after = document(block([step({ retry: { max_attempts: 3 } }), step({ id: "again" })]));
    const [group] = compareDocuments(document(block([step()])), after);
    expect(group).toEqual({
        title: "Steps",
        changes: [
            {
                kind: "changed",
                name: "all/find",
                before: "OpenAPI GET /walks",
                after: "OpenAPI GET /walks: another retry",
            },
            { kind: "added", name: "all/again", after: "OpenAPI GET /walks" },
        ],
    });
});

test("texts of new inputs are not listed again", () => {
    const after = {
        description: "Plans",
        parameters: [{ name: "start" }, { name: "n", description: "N", default: 1 }],
    };
    const texts = compareDocuments(document(), document(after)).find(({ title }) => title === "Texts");
    expect(texts?.changes.map(({ name }) => name)).toEqual(["description"]);
});
