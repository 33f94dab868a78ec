import { expect, test } from "vitest";
import {
    addressOfValues,
    fieldsOf,
    MAX_ADDRESS,
    readForm,
    textsOfValues,
    valuesOfAddress,
} from "../src/model/json-schema-form";

function one(schema: object, required = true) {
    return fieldsOf([{ name: "x", required, schema }]);
}

function read(schema: object, text: string) {
    const { values, errors } = readForm(one(schema), { x: text });
    return errors["x"] ?? values["x"];
}

test("the kind of a field follows its schema", () => {
    const kinds: [object, string][] = [
        [{ type: "string" }, "text"],
        [{ type: ["string", "null"] }, "text"],
        [{ type: "string", format: "date" }, "date"],
        [{ type: "string", enum: ["a"] }, "choice"],
        [{ type: "integer" }, "integer"],
        [{ type: "boolean" }, "boolean"],
        [{ type: "array" }, "list"],
        [{ type: "array", items: { type: "object" } }, "json"],
        [{ type: "object" }, "json"],
        [{ type: "object", properties: { a: {} } }, "object"],
        [{}, "any"],
    ];
    for (const [schema, kind] of kinds) {
        expect(one(schema)[0]?.kind).toBe(kind);
    }
});

test("a text becomes a value of its type, or an error at the field", () => {
    expect(read({ type: "integer" }, " 5 ")).toBe(5);
    expect(read({ type: "integer" }, "5.5")).toBe("This is not an integer.");
    expect(read({ type: "number" }, "many")).toBe("This is not a number.");
    expect(read({ type: "integer", minimum: 1, maximum: 9 }, "10")).toBe("It must be at most 9.");
    expect(read({ type: "boolean" }, "false")).toBe(false);
    expect(read({ type: "string" }, "007")).toBe("007");
    expect(read({ enum: [1, "b"] }, "0")).toBe(1);
    expect(read({ type: "array", items: { type: "integer" } }, "1\n\n 2")).toEqual([1, 2]);
    expect(read({ type: "array", items: { type: "integer" } }, "1\nb")).toBe("Line 2 is not an integer.");
    expect(read({ type: "array" }, '["a, b"]')).toEqual(["a, b"]);
    expect(read({ type: "object" }, '{"a": 1}')).toEqual({ a: 1 });
    expect(read({ type: "object" }, "[]")).toBe("This is JSON, but not an object.");
    expect(read({ type: "object" }, '{"a": }')).toMatch(/^This is not JSON: /);
    expect(read({}, "Paris")).toBe("Paris");
    expect(read({}, "[1]")).toEqual([1]);
    expect(read({ type: "string" }, "  ")).toBe("A value is needed.");
});

test("an optional field without a text has no value", () => {
    expect(readForm(one({ type: "string" }, false), {})).toEqual({ values: {}, errors: {}, secrets: [] });
});

test("the members of an object are fields, and are needed only where the object is given", () => {
    const schema = {
        type: "object",
        required: ["pace"],
        properties: { pace: { enum: ["slow", "fast"] }, leash: { type: "boolean" } },
    };
    const fields = one(schema, false);
    expect(readForm(fields, {}).errors).toEqual({});
    expect(readForm(fields, { "x/leash": "true" }).errors).toEqual({ "x/pace": "A value is needed." });
    expect(readForm(fields, { "x/leash": "true", "x/pace": "1" }).values).toEqual({
        x: { leash: true, pace: "fast" },
    });
});

test("values come back from their texts", () => {
    const fields = fieldsOf([
        { name: "text", required: true, schema: { type: "string" } },
        { name: "choice", required: true, schema: { enum: ["a", { b: 1 }] } },
        { name: "list", required: true, schema: { type: "array" } },
        { name: "odd", required: true, schema: { type: "array" } },
        { name: "inner", required: true, schema: { type: "object", properties: { n: { type: "number" } } } },
    ]);
    const values = { text: "t", choice: { b: 1 }, list: ["a", "b"], odd: [" a", "b\nc"], inner: { n: 1.5 } };
    expect(readForm(fields, textsOfValues(fields, values)).values).toEqual(values);
});

test("an address has no secrets, and not too many values", () => {
    const fields = fieldsOf([
        { name: "city", required: true, schema: { type: "string" } },
        { name: "token", required: true, secret: true, schema: { type: "string" } },
    ]);
    const form = readForm(fields, { city: "Paris", token: "t0p" });
    expect(addressOfValues(form)).toBe('{"city":"Paris"}');
    expect(addressOfValues(readForm(fields, { token: "t0p" }))).toBeUndefined();
    expect(addressOfValues(readForm(fields, { city: "x".repeat(MAX_ADDRESS) }))).toBeUndefined();
    expect(textsOfValues(fields, { token: "t0p" })).toEqual({});
    expect(valuesOfAddress("{")).toEqual({});
    expect(valuesOfAddress("[1]")).toEqual({});
});
