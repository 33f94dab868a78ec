// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are templates of documents
import type { CapabilityGraph, CapabilityStats } from "@a2s/core";
import { expect, test } from "vitest";
import { columnsOf, describeImpact, drawGraph, edgesOf } from "../src/model/capability-graph";
import { credentialsOf, inputsOf, outputsOf, typeOf } from "../src/model/capability-interface";
import { sharesOf } from "../src/model/capability-outcomes";
import { stepsOf } from "../src/model/capability-steps";

test("an input that no parameter declares is one that is read and never set", () => {
    const document = {
        parameters: [{ name: "city" }],
        execution: {
            variables: { shared: { told: "string" } },
            steps: [
                {
                    id: "a",
                    type: "capability",
                    use: "X",
                    for_each: { in: "${cities}", as: "one" },
                    input_mapping: { city: "${one} ${city} ${told} $${not}" },
                    output_mapping: { "b.c": "$.c" },
                },
            ],
        },
        output: { d: "${b.c}" },
    };
    expect(inputsOf(document).map(({ name, isDeclared }) => [name, isDeclared])).toEqual([
        ["city", true],
        ["cities", false],
    ]);
    expect(inputsOf(document)[1]?.schema).toEqual({ type: "array" });
    expect(outputsOf(document)).toEqual([{ name: "d" }]);
});

test("the schema of an input is that of the place to which it goes", () => {
    const paths = (schema: object) => ({
        "/x": {
            post: {
                parameters: [{ name: "day", in: "query", schema: { $ref: "#/components/schemas/Day" } }],
                requestBody: { content: { "application/json": { schema } } },
                security: [{ key: [] }],
            },
        },
    });
    const task = {
        servers: [{ url: "https://example.com:8443/v1" }],
        components: {
            schemas: { Day: { type: "string", format: "date" } },
            securitySchemes: { key: { type: "http", scheme: "bearer" } },
        },
        paths: paths({ type: "object", properties: { count: { type: "integer", maximum: 5 } } }),
    };
    const document = {
        tasks: { shared: task },
        parameters: [{ name: "when" }, { name: "many", type: "string" }],
        execution: {
            steps: [
                {
                    id: "a",
                    format: "OpenAPI",
                    task: { $ref: "#/tasks/shared" },
                    input_mapping: { queryParameters: { day: "${when}" }, body: { count: "${many}" } },
                },
                {
                    id: "b",
                    format: "GraphQL",
                    task: { endpoint: "https://x.org/q", query: "query($n: [Int!]!) { a(n: $n) }" },
                    input_mapping: { variables: { n: "${numbers}" } },
                },
            ],
        },
    };
    expect(inputsOf(document).map(({ schema }) => typeOf(schema))).toEqual([
        "string (date)",
        // The declared type counts where the service has another.
        "string",
        "array of integer",
    ]);
    expect(credentialsOf(document)).toEqual([
        { host: "example.com:8443", scheme: "key", type: "http bearer" },
    ]);
    expect(stepsOf(document).map(({ summary }) => summary)).toEqual(["POST /x", "query at https://x.org/q"]);
});

test("a document that is not one has no inputs, outputs or steps, and a circle of references ends", () => {
    for (const document of [{}, { execution: 1, parameters: "x", output: null }]) {
        expect(inputsOf(document)).toEqual([]);
        expect(stepsOf(document)).toEqual([]);
    }
    const tasks = { a: { $ref: "#/tasks/b" }, b: { $ref: "#/tasks/a" } };
    const execution = { steps: [{ id: "a", format: "OpenAPI", task: { $ref: "#/tasks/a" } }] };
    expect(stepsOf({ tasks, execution })[0]?.task).toEqual({});
});

const graph = (edges: [string, string | null][]): CapabilityGraph =>
    ({
        root: "R@1",
        nodes: [...new Set(["R@1", ...edges.flat()])]
            .filter((id) => id !== null)
            .map((id) => ({ id, name: id.split("@")[0], version: "1", checksum: "" })),
        edges: edges.map(([from, to]) => ({ from, to, uses: "Gone", range: "^2", pinned: false })),
        services: [],
        consumers: [],
        producers: [],
    }) as unknown as CapabilityGraph;

test("columns lead from dependents over the root to dependencies", () => {
    const { root, ...rest } = graph([
        ["R@1", "A@1"],
        ["A@1", "B@1"],
        ["U@1", "R@1"],
        ["V@1", "U@1"],
        ["V@1", "B@1"],
        ["V@1", "C@1"],
    ]);
    expect(Object.fromEntries(columnsOf(root, edgesOf({ root, ...rest })))).toEqual({
        "R@1": 0,
        "A@1": 1,
        "B@1": 2,
        "U@1": -1,
        "V@1": -2,
        "C@1": -1,
    });
});

test("a drawing has a place for each node, and no two at the same one", () => {
    const edges = Array.from({ length: 20 }, (_, index): [string, string] => ["R@1", `A${index}@1`]);
    const drawing = drawGraph(graph([...edges, ["R@1", null]]));
    expect(drawing.nodes).toHaveLength(22);
    expect(new Set(drawing.nodes.map(({ x, y }) => `${x} ${y}`)).size).toBe(22);
    expect(drawing.nodes.find(({ id }) => id === "Gone@^2")?.isKnown).toBe(false);
    expect(drawing.edges).toHaveLength(21);
    expect(drawGraph(graph([])).nodes).toHaveLength(1);
});

test("the impact is said in words", () => {
    const impact = { broken: [], changed: [], pinned: [] };
    expect(describeImpact(impact)).toBe("If this version is yanked, no capability is affected.");
    expect(describeImpact({ ...impact, broken: [{ id: "A@1", reasons: [] }], pinned: ["B@1", "C@1"] })).toBe(
        "If this version is yanked: 1 capability would break, 2 capabilities would keep it by a pin.",
    );
});

test("shares add up to all runs", () => {
    const shares = sharesOf({ runs: 10, successes: 7, faults: 2 } as CapabilityStats);
    expect(shares.map(({ count }) => count)).toEqual([7, 2, 1]);
    expect(sharesOf({ runs: 0, successes: 0, faults: 0 } as CapabilityStats)[0]?.share).toBe(0);
});
