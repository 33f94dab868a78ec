/** A form made from JSON schemas: its fields, and the way between their texts and values. Pure. */
import { type Members, membersOf, sortedJson, textOf, textsOf } from "./capability-values";

export type FieldKind =
    | "text"
    | "number"
    | "integer"
    | "boolean"
    | "choice"
    | "date"
    | "date-time"
    | "object"
    | "list"
    | "json"
    | "any";

export interface Field {
    /** Unique in the form: `options/package`. */
    path: string;
    name: string;
    kind: FieldKind;
    required: boolean;
    secret: boolean;
    /** What a person should know: the description, then the limits. */
    hint: string;
    /** The values of a choice. */
    choices: unknown[];
    /** The text of the default, which is used when the field is empty. */
    placeholder: string;
    /** The fields of an object. */
    fields: Field[];
    /** The schema. */
    schema: Members;
}

export interface FieldSource {
    name: string;
    description?: string | null;
    required: boolean;
    secret?: boolean;
    schema?: unknown;
    default?: unknown;
}

/** The text of each field by its path. An absent or empty one has no value. */
export type Texts = Record<string, string>;

const SCALARS = new Set(["string", "number", "integer", "boolean"]);

/** Returns the fields of inputs. */
export function fieldsOf(sources: FieldSource[]): Field[] {
    return sources.map((source) => fieldOf(source, "", 0));
}

function fieldOf(source: FieldSource, parent: string, level: number): Field {
    const schema = membersOf(source.schema);
    const kind = kindOf(schema, level);
    const path = parent === "" ? source.name : `${parent}/${source.name}`;
    const required = new Set(textsOf(schema["required"]));
    const fields =
        kind === "object"
            ? Object.entries(membersOf(schema["properties"]))
                  .filter(([, property]) => membersOf(property)["readOnly"] !== true)
                  .map(([name, property]) => {
                      const members = membersOf(property);
                      const description = textOf(members["description"]) ?? null;
                      const inner = { name, description, required: required.has(name), schema: property };
                      return fieldOf({ ...inner, default: members["default"] }, path, level + 1);
                  })
            : [];
    return {
        path,
        name: source.name,
        kind,
        required: source.required,
        secret: source.secret ?? false,
        hint: hintOf(source.description ?? "", schema),
        choices: Array.isArray(schema["enum"]) ? schema["enum"] : [],
        placeholder: source.default === undefined || source.secret ? "" : writeValue(source.default),
        fields,
        schema,
    };
}

function kindOf(schema: Members, level: number): FieldKind {
    const given = schema["type"];
    const types = (Array.isArray(given) ? textsOf(given) : [textOf(given)]).filter((type) => type !== "null");
    const type = types.length === 1 ? types[0] : undefined;
    const format = textOf(schema["format"]);
    if (Array.isArray(schema["enum"]) && schema["enum"].length > 0) {
        return "choice";
    }
    if (type === "string") {
        return format === "date" || format === "date-time" ? format : "text";
    }
    if (type === "number" || type === "integer" || type === "boolean") {
        return type;
    }
    if (type === "array") {
        const items = textOf(membersOf(schema["items"])["type"]);
        return items === undefined || SCALARS.has(items) ? "list" : "json";
    }
    if (type === "object") {
        const count = Object.keys(membersOf(schema["properties"])).length;
        return count > 0 && count <= 20 && level < 3 ? "object" : "json";
    }
    return "any";
}

function hintOf(description: string, schema: Members): string {
    const number = (name: string) => (typeof schema[name] === "number" ? schema[name] : undefined);
    const limits: string[] = [];
    const [low, high] = [number("minimum"), number("maximum")];
    if (low !== undefined && high !== undefined) {
        limits.push(`${low} to ${high}`);
    } else if (low !== undefined) {
        limits.push(`at least ${low}`);
    } else if (high !== undefined) {
        limits.push(`at most ${high}`);
    }
    const length = number("maxLength");
    if (length !== undefined) {
        limits.push(`at most ${length} characters`);
    }
    const pattern = textOf(schema["pattern"]);
    if (pattern !== undefined && pattern.length <= 60) {
        limits.push(`pattern ${pattern}`);
    }
    return [description, limits.join(", ")].filter(Boolean).join(" · ");
}

/** Returns the text of a value in its field. */
export function writeValue(value: unknown): string {
    return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

/** Returns the texts of a form that has these values. Values of no field are left out. */
export function textsOfValues(fields: Field[], values: Members): Texts {
    const texts: Texts = {};
    for (const field of fields) {
        const value = values[field.name];
        if (value === undefined || field.secret) {
            continue;
        }
        if (field.kind === "object" && Object.keys(membersOf(value)).length > 0) {
            Object.assign(texts, textsOfValues(field.fields, membersOf(value)));
        } else if (field.kind === "choice") {
            texts[field.path] = String(
                field.choices.findIndex((choice) => sortedJson(choice) === sortedJson(value)),
            );
        } else if (field.kind === "list" && Array.isArray(value) && value.every(isPlainItem)) {
            texts[field.path] = value.map(writeValue).join("\n");
        } else {
            texts[field.path] = field.kind === "json" ? JSON.stringify(value, null, 2) : writeValue(value);
        }
    }
    return texts;
}

function isPlainItem(item: unknown): boolean {
    return typeof item === "string"
        ? item.trim() === item && item !== "" && !item.includes("\n")
        : typeof item !== "object";
}

export interface FormValues {
    values: Members;
    /** What is wrong, by the path of the field. */
    errors: Record<string, string>;
    /** The names of fields whose values must not be in an address. */
    secrets: string[];
}

/** Reads all fields. An empty field has no value; where one is needed, that is an error. */
export function readForm(fields: Field[], texts: Texts): FormValues {
    const result: FormValues = { values: {}, errors: {}, secrets: [] };
    for (const field of fields) {
        const value = readField(field, texts, result.errors);
        if (value !== undefined) {
            result.values[field.name] = value;
        }
        if (field.secret) {
            result.secrets.push(field.name);
        }
    }
    return result;
}

function readField(field: Field, texts: Texts, errors: Record<string, string>): unknown {
    if (field.kind === "object") {
        return readObject(field, texts, errors);
    }
    const text = texts[field.path] ?? "";
    if (text.trim() === "" || (field.kind === "choice" && field.choices[Number(text)] === undefined)) {
        if (field.required) {
            errors[field.path] = "A value is needed.";
        }
        return undefined;
    }
    try {
        return readText(field, text);
    } catch (error) {
        errors[field.path] = error instanceof Error ? error.message : String(error);
        return undefined;
    }
}

function readObject(field: Field, texts: Texts, errors: Record<string, string>): unknown {
    const isGiven = Object.entries(texts).some(
        ([path, text]) => path.startsWith(`${field.path}/`) && text.trim() !== "",
    );
    // The required members of an object count only where the object is given.
    if (!isGiven && !field.required) {
        return undefined;
    }
    const members: Members = {};
    for (const inner of field.fields) {
        const value = readField(inner, texts, errors);
        if (value !== undefined) {
            members[inner.name] = value;
        }
    }
    return members;
}

function readText(field: Field, text: string): unknown {
    switch (field.kind) {
        case "choice":
            return field.choices[Number(text)];
        case "boolean":
            return text === "true";
        case "number":
        case "integer":
            return readNumber(field, text);
        case "date-time":
            return readTime(text);
        case "list":
            return readList(field, text);
        case "json":
            return readJson(text, textOf(field.schema["type"]));
        case "any":
            // A text, unless it can only be meant as JSON.
            return /^\s*[[{]/.test(text) ? readJson(text, undefined) : text;
        default:
            return text;
    }
}

function readNumber(field: Field, text: string): number {
    const number = Number(text.trim());
    if (!Number.isFinite(number)) {
        throw new Error("This is not a number.");
    }
    if (field.kind === "integer" && !Number.isSafeInteger(number)) {
        throw new Error("This is not an integer.");
    }
    const [low, high] = [field.schema["minimum"], field.schema["maximum"]];
    if (typeof low === "number" && number < low) {
        throw new Error(`It must be at least ${low}.`);
    }
    if (typeof high === "number" && number > high) {
        throw new Error(`It must be at most ${high}.`);
    }
    return number;
}

/** A field of the browser has no zone: its time is that of the reader. */
function readTime(text: string): string {
    if (/(Z|[+-]\d\d:\d\d)$/i.test(text)) {
        return text;
    }
    const time = new Date(text);
    if (Number.isNaN(time.getTime())) {
        throw new Error("This is not a time, such as 2026-05-01T12:00:00Z.");
    }
    return time.toISOString();
}

function readList(field: Field, text: string): unknown[] {
    if (text.trim().startsWith("[")) {
        return readJson(text, "array") as unknown[];
    }
    const items = membersOf(field.schema["items"]);
    const type = textOf(items["type"]);
    const lines = text.split("\n").map((line) => line.trim());
    return lines
        .map((line, index) => ({ line, number: index + 1 }))
        .filter(({ line }) => line !== "")
        .map(({ line, number }) => {
            if (type === "number" || type === "integer") {
                const value = Number(line);
                if (!Number.isFinite(value) || (type === "integer" && !Number.isSafeInteger(value))) {
                    throw new Error(
                        `Line ${number} is not ${type === "integer" ? "an integer" : "a number"}.`,
                    );
                }
                return value;
            }
            return type === "boolean" ? line === "true" : line;
        });
}

function readJson(text: string, type: string | undefined): unknown {
    let value: unknown;
    try {
        value = JSON.parse(text);
    } catch (error) {
        throw new Error(`This is not JSON: ${placeOf(error, text)}`);
    }
    const isList = Array.isArray(value);
    if (type === "array" && !isList) {
        throw new Error("This is JSON, but not a list.");
    }
    if (type === "object" && (isList || typeof value !== "object" || value === null)) {
        throw new Error("This is JSON, but not an object.");
    }
    return value;
}

/** Browsers name the position in different words: this says the line. */
function placeOf(error: unknown, text: string): string {
    const message = error instanceof Error ? error.message : String(error);
    const position = /position (\d+)/.exec(message)?.[1];
    if (position === undefined) {
        return `${message.replace(/^JSON\.parse: /, "").replace(/\.$/, "")}.`;
    }
    const before = text.slice(0, Number(position)).split("\n");
    return `line ${before.length}, column ${(before.at(-1) ?? "").length + 1} is not expected.`;
}

/** The longest text of values in an address. */
export const MAX_ADDRESS = 1500;

/** Returns the values as a text for the address, without secrets; undefined when there are none, or too many. */
export function addressOfValues({ values, secrets }: FormValues): string | undefined {
    const shown = Object.entries(values).filter(([name]) => !secrets.includes(name));
    const text = JSON.stringify(Object.fromEntries(shown));
    return shown.length > 0 && text.length <= MAX_ADDRESS ? text : undefined;
}

/** Returns the values of an address. What cannot be read is nothing. */
export function valuesOfAddress(text: string | null): Members {
    try {
        return membersOf(JSON.parse(text ?? "{}"));
    } catch {
        return {};
    }
}
