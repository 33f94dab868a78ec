/** The steps of a document in one list, with what each sends. Pure. */
import { itemsOf, type Members, membersOf, textOf } from "./capability-values";

export interface Step {
    /** The path of the step, such as `gather/readWeather`. */
    path: string;
    depth: number;
    /** `OpenAPI`, `GraphQL`, `MCP`, `capability`, `sequence`, `parallel` or `condition`. */
    kind: string;
    /** What the step does: `GET /breeds`, `a mutation`, the tool, or the capability that it uses. */
    summary: string;
    /** The step as the document has it. */
    source: Members;
    /** The task with its reference resolved. Empty for other steps. */
    task: Members;
    inputs: Members;
    outputs: Members;
}

/** An operation of an OpenAPI task. */
export interface Operation {
    method: string;
    path: string;
    /** The operation itself. */
    source: Members;
    /** The parameters of the operation and of its path. */
    parameters: Members[];
}

const METHODS = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/** Returns the value at a reference within a document, such as `#/tasks/rate`. */
export function resolveReference(value: unknown, document: Members): unknown {
    let result = value;
    // A chain of references ends here even where it is a circle.
    for (let count = 0; count < 8; count += 1) {
        const reference = textOf(membersOf(result)["$ref"]);
        if (reference === undefined || !reference.startsWith("#/")) {
            return result;
        }
        result = reference
            .slice(2)
            .split("/")
            .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
            .reduce<unknown>((parent, part) => membersOf(parent)[part], document);
    }
    return undefined;
}

/** Returns the one operation of an OpenAPI task. */
export function operationOf(task: Members): Operation | undefined {
    for (const [path, item] of Object.entries(membersOf(task["paths"]))) {
        const method = METHODS.find((method) => method in membersOf(item));
        if (method !== undefined) {
            const source = membersOf(membersOf(item)[method]);
            const parameters = [...itemsOf(membersOf(item)["parameters"]), ...itemsOf(source["parameters"])];
            return {
                method: method.toUpperCase(),
                path,
                source,
                parameters: parameters.map((parameter) => membersOf(resolveReference(parameter, task))),
            };
        }
    }
    return undefined;
}

function summarize(kind: string, task: Members, step: Members): string {
    if (kind === "OpenAPI") {
        const operation = operationOf(task);
        return operation ? `${operation.method} ${operation.path}` : "";
    }
    if (kind === "GraphQL") {
        const query = textOf(task["query"]) ?? "";
        return `${/^\s*mutation\b/.test(query) ? "mutation" : "query"} at ${textOf(task["endpoint"]) ?? ""}`;
    }
    if (kind === "MCP") {
        return `tool ${textOf(task["tool"]) ?? ""}`;
    }
    if (kind === "capability") {
        return textOf(step["use"]) ?? "";
    }
    return kind === "condition" ? (textOf(step["condition"]) ?? "") : "";
}

/** Returns the lists of steps within a block, each with the word that names it. */
function blocksOf(step: Members): [label: string, steps: unknown[]][] {
    return [
        ["", itemsOf(step["steps"])],
        ["if true", itemsOf(membersOf(step["if_true"])["steps"])],
        ["if false", itemsOf(membersOf(step["if_false"])["steps"])],
        ["catch", itemsOf(membersOf(step["catch"])["steps"])],
    ];
}

/** Returns all steps of a document, each after the step that it is in. */
export function stepsOf(document: Members): Step[] {
    const steps: Step[] = [];
    const walk = (block: Members, parent: string, depth: number): void => {
        for (const [, items] of blocksOf(block)) {
            for (const item of items) {
                const source = membersOf(item);
                const id = textOf(source["id"]) ?? "step";
                const path = parent === "" ? id : `${parent}/${id}`;
                const task = membersOf(resolveReference(source["task"] ?? source["definition"], document));
                const kind = textOf(source["format"]) ?? textOf(source["type"]) ?? "step";
                steps.push({
                    path,
                    depth,
                    kind,
                    summary: summarize(kind, task, source),
                    source,
                    task,
                    inputs: membersOf(source["input_mapping"] ?? source["input_template"]),
                    outputs: membersOf(source["output_mapping"]),
                });
                if (depth < 32) {
                    walk(source, path, depth + 1);
                }
            }
        }
    };
    walk(membersOf(document["execution"]), "", 0);
    return steps;
}
