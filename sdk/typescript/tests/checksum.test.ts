import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { canonicalize, computeChecksum, type JsonValue, parseJson } from "@a2s/core";
import fc from "fast-check";
import { type Json, ROOT } from "./support.js";

const read = (path: string): Json => JSON.parse(readFileSync(path, "utf8"));

test("the vectors of docs/checksum.md", async () => {
    let computed = 0;
    let refused = 0;
    for (const vector of read(join(ROOT, "tests/fixtures/checksum/vectors.json"))) {
        // This SDK reads no YAML.
        if (vector.refused !== undefined) {
            if (vector.document.trimStart().startsWith("{")) {
                await assert.rejects(computeChecksum(vector.document), vector.name);
                refused++;
            }
            continue;
        }
        assert.equal(await computeChecksum(vector.canonical), vector.digest, vector.name);
        if (isJson(vector.document)) {
            assert.equal(await computeChecksum(vector.document), vector.digest, vector.name);
        }
        assert.equal(canonicalize(parseJson(vector.canonical)), vector.canonical, vector.name);
        computed++;
    }
    assert.deepEqual([computed, refused], [70, 6]);
});

test("the vectors of RFC 8785", () => {
    const vectors = read(join(import.meta.dirname, "../../tests/data/jcs.json"));
    assert.equal(vectors.length, 6);
    for (const { name, text, canonical } of vectors) {
        assert.equal(canonicalize(parseJson(text)), canonical, name);
    }
});

test("what documents cannot contain is refused", async () => {
    for (const text of [
        '{"a": 1, "a": 1}',
        '{"a": 1, "\\u0061": 2}',
        '{"__proto__": 1, "__proto__": 2}',
        '"\\ud83d"',
        '"\\ude00\\ud83d"',
        "1e400",
        "-1e400",
        "9007199254740992",
        "1e16",
        "9007199254740991.5",
        "01",
        "+1",
        "1.",
        ".5",
        "0x10",
        "NaN",
        "[1,]",
        '{"a": 1,}',
        "{a: 1}",
        "'a'",
        '"\t"',
        "nul",
        "1 2",
        "",
        '{"a": 1',
        "\u00a01",
        `${"[".repeat(65)}${"]".repeat(65)}`,
        `${"[".repeat(100_000)}`,
    ]) {
        await assert.rejects(computeChecksum(text), text.slice(0, 40));
    }
    for (const value of [
        { a: Number.NaN },
        { a: Number.POSITIVE_INFINITY },
        { a: "\ud83d" },
        { "\ud83d": 1 },
    ]) {
        await assert.rejects(computeChecksum(value));
    }
    assert.throws(() => canonicalize(1n), TypeError);
    assert.throws(() => canonicalize(undefined), TypeError);
    assert.throws(() => canonicalize({ at: new Date(0) }), TypeError);
    assert.throws(() => canonicalize(new Map([["a", 1]])), TypeError);
    const cycle: unknown[] = [];
    cycle.push(cycle);
    assert.throws(() => canonicalize(cycle), TypeError);
});

test("the parser refuses by itself what is not strict", () => {
    const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
    for (const text of [
        '"\\ud83d"',
        '{"\\ude00": 1}',
        "1e400",
        "-1e400",
        nested(257),
        '{"a": 1, "\\u0061": 1}',
    ]) {
        assert.throws(() => parseJson(text), SyntaxError, text.slice(0, 20));
    }
    assert.equal(canonicalize(parseJson(nested(256))), nested(256));
    assert.equal(parseJson('"\\ud83d\\ude00"'), "😀");
    assert.equal(parseJson("1e-400"), 0);
});

test("members of any name are members", () => {
    const value = parseJson('{"__proto__": {"a": 1}, "constructor": 2}');
    assert.equal(canonicalize(value), '{"__proto__":{"a":1},"constructor":2}');
    assert.equal(({} as Json).a, undefined);
});

test("the member `checksum` is left out at the top only", async () => {
    const digest = `sha256:${createHash("sha256").update('{"a":{"checksum":1}}').digest("hex")}`;
    assert.equal(await computeChecksum({ checksum: "x", a: { checksum: 1 } }), digest);
    assert.equal(await computeChecksum('{"a": {"checksum": 1.0}}'), digest);
});

test("the parser reads what JSON.parse reads", () => {
    fc.assert(
        fc.property(fc.jsonValue({ maxDepth: 5 }), fc.nat(4), (value, indent) => {
            const text = JSON.stringify(value, null, indent);
            if (text.isWellFormed() && !/\\ud[89a-f]/i.test(text)) {
                assert.deepEqual(parseJson(text), JSON.parse(text));
            }
        }),
    );
});

test("the parser refuses what JSON.parse refuses", () => {
    const pieces = fc.constantFrom(..."{}[],:\"\\ \n\t0123456789.eE+-truefalsn'\u0000\ud83d/u");
    fc.assert(
        fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
            const text = parts.join("");
            let accepted: JsonValue;
            try {
                accepted = parseJson(text);
            } catch (error) {
                assert.ok(error instanceof SyntaxError);
                return;
            }
            assert.deepEqual(accepted, JSON.parse(text));
        }),
        { numRuns: 20_000 },
    );
});

test("the canonical form does not depend on the notation", async () => {
    await fc.assert(
        fc.asyncProperty(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), async (object) => {
            const canonical = canonicalize(object);
            assert.equal(canonicalize(parseJson(canonical)), canonical);
            const reversed = Object.fromEntries(Object.entries(object).reverse());
            assert.equal(canonicalize(reversed), canonical);
            assert.deepEqual(JSON.parse(canonical), JSON.parse(JSON.stringify(object)));
        }),
    );
});

function isJson(text: string): boolean {
    try {
        JSON.parse(text.replace(/^\ufeff/, ""));
        return true;
    } catch {
        return false;
    }
}
