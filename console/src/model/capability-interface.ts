/** What a document says about its callers: inputs, outputs, and credentials. Pure. */
import { operationOf, resolveReference, type Step, stepsOf } from "./capability-steps";
import { itemsOf, type Members, membersOf, textOf, textsOf } from "./capability-values";

export interface Input {
    name: string;
    description?: string;
    required: boolean;
    secret: boolean;
    /** The JSON schema of its values, as far as the document says it. */
    schema: Members;
    default?: unknown;
    patterns: string[];
    /** False for a name that steps read and no parameter declares. */
    isDeclared: boolean;
}

export interface Output {
    name: string;
    /** Undefined when the document does not say it. */
    type?: string;
    description?: string;
}

export interface RequiredCredential {
    host: string;
    scheme: string;
    type: string;
}

const GROUPS = ["pathParameters", "queryParameters", "headerParameters", "cookieParameters"];
const REFERENCE = /(?<!\$)\$\{\s*([A-Za-z_][A-Za-z0-9_-]*)/g;
const WHOLE = /^\$\{\s*([A-Za-z_][A-Za-z0-9_-]*)\s*\}$/;
const GRAPHQL: Record<string, string> = {
    Int: "integer",
    Float: "number",
    Boolean: "boolean",
    String: "string",
    ID: "string",
};

/** Returns the inputs of a document: its parameters, then the names that are read and never set. */
export function inputsOf(document: Members): Input[] {
    const steps = stepsOf(document);
    const schemas = schemasOf(steps);
    const inputs = itemsOf(document["parameters"]).map((item): Input => {
        const parameter = membersOf(item);
        const name = textOf(parameter["name"]) ?? "";
        const hasDefault = Object.hasOwn(parameter, "default");
        const description = textOf(parameter["description"]);
        return {
            name,
            ...(description === undefined ? {} : { description }),
            required: parameter["required"] !== false && !hasDefault,
            secret: parameter["secret"] === true,
            schema: mergeSchemas(parameter, schemas.get(name)),
            ...(hasDefault ? { default: parameter["default"] } : {}),
            patterns: textsOf(parameter["patterns"]),
            isDeclared: true,
        };
    });
    const declared = new Set(inputs.map(({ name }) => name));
    for (const name of readAndNeverSet(document, steps)) {
        if (!declared.has(name)) {
            const schema = schemas.get(name) ?? {};
            inputs.push({ name, required: true, secret: false, schema, patterns: [], isDeclared: false });
        }
    }
    return inputs;
}

/** Returns the type that a schema states, in words. */
export function typeOf(schema: Members): string | undefined {
    const type = schema["type"];
    const types = Array.isArray(type) ? textsOf(type) : [textOf(type)].filter((text) => text !== undefined);
    const format = textOf(schema["format"]);
    if (types.length === 0) {
        return Array.isArray(schema["enum"]) ? "choice" : undefined;
    }
    const items = types.includes("array") ? typeOf(membersOf(schema["items"])) : undefined;
    if (items !== undefined) {
        return `array of ${items}`;
    }
    return types.includes("string") && format ? `${types.join(" or ")} (${format})` : types.join(" or ");
}

function mergeSchemas(parameter: Members, found: Members | undefined): Members {
    const type = parameter["type"];
    const isSame = type === undefined || found?.["type"] === undefined || found["type"] === type;
    const own = Object.fromEntries(
        ["type", "enum"].flatMap((key) => (parameter[key] === undefined ? [] : [[key, parameter[key]]])),
    );
    return { ...(isSame ? found : {}), ...own };
}

/** Returns the names that templates read and that nothing sets. */
function readAndNeverSet(document: Members, steps: Step[]): Set<string> {
    const read = new Set<string>();
    const set = new Set(
        Object.keys(membersOf(membersOf(membersOf(document["execution"])["variables"])["shared"])),
    );
    const collect = (value: unknown): void => {
        for (const [, name] of (JSON.stringify(value) ?? "").matchAll(REFERENCE)) {
            if (name !== undefined) {
                read.add(name);
            }
        }
    };
    collect(document["output"]);
    collect(membersOf(document["execution"])["condition"]);
    for (const { source, inputs, outputs } of steps) {
        collect([inputs, source["condition"], source["for_each"]]);
        for (const name of Object.keys(outputs)) {
            set.add(name.split(".")[0] ?? name);
        }
        if (source["for_each"] !== undefined) {
            set.add(textOf(membersOf(source["for_each"])["as"]) ?? "item");
        }
        if (source["catch"] !== undefined) {
            set.add(textOf(membersOf(source["catch"])["as"]) ?? "error");
        }
    }
    return new Set([...read].filter((name) => !set.has(name)));
}

/** Returns the schemas of the places to which inputs go as a whole, by the name of the input. */
function schemasOf(steps: Step[]): Map<string, Members> {
    const schemas = new Map<string, Members>();
    const note = (value: unknown, schema: unknown, step: Step): void => {
        const name = typeof value === "string" ? WHOLE.exec(value)?.[1] : undefined;
        const found = membersOf(resolveReference(schema, step.task));
        if (name !== undefined && !schemas.has(name) && Object.keys(found).length > 0) {
            schemas.set(name, inlineReferences(found, step.task, 0));
        }
    };
    for (const step of steps) {
        const { source, inputs } = step;
        const list =
            typeof source["for_each"] === "string" ? source["for_each"] : membersOf(source["for_each"])["in"];
        note(list, { type: "array" }, step);
        if (step.kind === "OpenAPI") {
            noteOperation(step, note);
        } else if (step.kind === "GraphQL") {
            const query = textOf(step.task["query"]) ?? "";
            for (const [name, value] of Object.entries(membersOf(inputs["variables"] ?? inputs))) {
                note(value, schemaOfVariable(query, name), step);
            }
        } else if (step.kind === "MCP") {
            const properties = membersOf(membersOf(step.task["inputSchema"])["properties"]);
            for (const [name, value] of Object.entries(membersOf(inputs["arguments"] ?? inputs))) {
                note(value, properties[name], step);
            }
        }
    }
    return schemas;
}

function noteOperation(step: Step, note: (value: unknown, schema: unknown, step: Step) => void): void {
    const operation = operationOf(step.task);
    const groups = GROUPS.filter((group) => group in step.inputs);
    const isFlat = groups.length === 0 && !("body" in step.inputs);
    const places = isFlat ? [step.inputs] : groups.map((group) => membersOf(step.inputs[group]));
    for (const [name, value] of places.flatMap((place) => Object.entries(place))) {
        note(value, operation?.parameters.find((parameter) => parameter["name"] === name)?.["schema"], step);
    }
    const body = membersOf(resolveReference(operation?.source["requestBody"], step.task));
    const schema = resolveReference(
        membersOf(Object.values(membersOf(body["content"]))[0])["schema"],
        step.task,
    );
    note(step.inputs["body"], schema, step);
    const properties = membersOf(membersOf(schema)["properties"]);
    for (const [name, value] of Object.entries(isFlat ? step.inputs : membersOf(step.inputs["body"]))) {
        note(value, properties[name], step);
    }
}

function schemaOfVariable(query: string, name: string): Members | undefined {
    const type = [...query.matchAll(/\$([A-Za-z_]\w*)\s*:\s*([[\]!\w]+)/g)].find(
        ([, other]) => other === name,
    )?.[2];
    if (type === undefined) {
        return undefined;
    }
    const scalar = GRAPHQL[type.replace(/[[\]!]/g, "")];
    const schema = scalar === undefined ? {} : { type: scalar };
    return type.startsWith("[") ? { type: "array", items: schema } : schema;
}

/** Replaces the references within a schema, so far as a form needs it. */
function inlineReferences(schema: Members, task: Members, level: number): Members {
    if (level > 4) {
        return {};
    }
    const inline = (value: unknown) =>
        inlineReferences(membersOf(resolveReference(value, task)), task, level + 1);
    const result: Members = { ...schema };
    if (schema["properties"] !== undefined) {
        result["properties"] = Object.fromEntries(
            Object.entries(membersOf(schema["properties"])).map(([name, value]) => [name, inline(value)]),
        );
    }
    if (schema["items"] !== undefined) {
        result["items"] = inline(schema["items"]);
    }
    return result;
}

/** Returns the outputs of a document: the members of `output`, or all that its steps set. */
export function outputsOf(document: Members): Output[] {
    const types = outputTypes(document);
    const shape = document["output"];
    if (shape === undefined) {
        return [...types].map(([name, type]) => (type === undefined ? { name } : { name, type }));
    }
    if (typeof shape !== "object" || shape === null || Array.isArray(shape)) {
        return [{ name: "(the result)", ...typeOfTemplate(shape, types) }];
    }
    return Object.entries(shape).map(([name, value]) => ({ name, ...typeOfTemplate(value, types) }));
}

function typeOfTemplate(value: unknown, types: Map<string, string | undefined>): { type?: string } {
    if (typeof value === "string") {
        const name = WHOLE.exec(value)?.[1];
        const type = name === undefined && !/^\$\{[^}]*\}$/.test(value) ? "string" : types.get(name ?? "");
        return type === undefined ? {} : { type };
    }
    return { type: Array.isArray(value) ? "array" : value === null ? "null" : typeof value };
}

function outputTypes(document: Members): Map<string, string | undefined> {
    const types = new Map<string, string | undefined>();
    for (const { name, schema } of inputsOf(document)) {
        types.set(name, typeOf(schema));
    }
    const parameters = new Set(types.keys());
    for (const [name, type] of Object.entries(
        membersOf(membersOf(membersOf(document["execution"])["variables"])["shared"]),
    )) {
        types.set(name, textOf(type));
    }
    for (const step of stepsOf(document)) {
        for (const [name, source] of Object.entries(step.outputs)) {
            const [root = name, ...rest] = name.split(".");
            const type = rest.length > 0 ? "object" : typeAtPath(step, source);
            types.set(root, types.get(root) ?? (step.source["for_each"] === undefined ? type : "array"));
            parameters.delete(root);
        }
    }
    if (document["output"] === undefined) {
        for (const name of parameters) {
            types.delete(name);
        }
    }
    return types;
}

/** Returns the type at a JSONPath into the response of a step, where the step declares it. */
function typeAtPath(step: Step, source: unknown): string | undefined {
    const mapping = membersOf(source);
    if (mapping["from"] === "status") {
        return "integer";
    }
    if (mapping["from"] === "header") {
        return "string";
    }
    const path = textOf(source) ?? textOf(mapping["path"]) ?? "";
    const parts: string[] = path.match(/\.[A-Za-z_][\w-]*|\[\d+\]|\[\*\]/g) ?? [];
    if (`$${parts.join("")}` !== path) {
        return path.includes("*") || path.includes("?") || path.includes("..") ? "array" : undefined;
    }
    let schema: Members = responseSchema(step);
    for (const part of parts) {
        const next = part.startsWith(".") ? membersOf(schema["properties"])[part.slice(1)] : schema["items"];
        schema = membersOf(resolveReference(next, step.task));
    }
    const type = typeOf(schema);
    if (parts.includes("[*]")) {
        return type === undefined ? "array" : `array of ${type}`;
    }
    return type;
}

function responseSchema(step: Step): Members {
    if (step.kind === "MCP") {
        return membersOf(step.task["outputSchema"]);
    }
    const responses = membersOf(operationOf(step.task)?.source["responses"]);
    const status = Object.keys(responses).find((status) => /^2|^default$/.test(status)) ?? "";
    const response = membersOf(resolveReference(responses[status], step.task));
    const content = Object.entries(membersOf(response["content"])).find(([type]) =>
        type.includes("json"),
    )?.[1];
    return membersOf(resolveReference(membersOf(content)["schema"], step.task));
}

/** Returns the credentials that the tasks of a document ask for, without those of the capabilities it uses. */
export function credentialsOf(document: Members): RequiredCredential[] {
    const found = new Map<string, RequiredCredential>();
    for (const { task } of stepsOf(document)) {
        const schemes = membersOf(
            membersOf(task["components"])["securitySchemes"] ?? task["securitySchemes"],
        );
        const security = itemsOf(operationOf(task)?.source["security"] ?? task["security"]);
        for (const scheme of security.flatMap((requirement) => Object.keys(membersOf(requirement)))) {
            const host = hostOf(task);
            const source = membersOf(resolveReference(schemes[scheme], task));
            const type = [textOf(source["type"]), textOf(source["scheme"])].filter(Boolean).join(" ");
            found.set(`${host} ${scheme}`, { host, scheme, type: type || "unknown" });
        }
    }
    return [...found.values()];
}

function hostOf(task: Members): string {
    const server = membersOf(itemsOf(task["servers"])[0])["url"];
    const address = textOf(server) ?? textOf(task["endpoint"]) ?? textOf(task["server"]) ?? "";
    return URL.canParse(address) ? new URL(address).host : address;
}
