/** A registry that lies: a proxy serves 1,000 mutations of a document. */
import assert from "node:assert/strict";
import test from "node:test";
import { isDeepStrictEqual } from "node:util";
import { ChecksumMismatch, computeChecksum } from "@a2s/core";
import { type Json, registryAt, serve } from "./support.js";

// It has every kind of value that a mutation may change.
const HONEST = String.raw`{
 "a2s": "1.1.0", "name": "ReadWeather", "version": "1.0", "description": "Reads the weather in é and \u20ac",
 "checksum": "sha256:0000000000000000000000000000000000000000000000000000000000000000",
 "limits": {"minutes": 2.5, "calls": 16, "none": null, "small": 1e-7, "zero": 0}, "tags": ["b", "a", "b", 1, true],
 "parameters": [{"name": "city", "secret": false, "default": "Paris"}, {"name": "days", "default": 3}],
 "execution": {"type": "sequence", "steps": [{"id": "read", "checksum": "x", "task": {"paths": {"/\ud83d\ude00": {}}}}]}
}`;

interface Mutation {
    name: string;
    /** Whether readers would understand the text differently, or not at all. */
    isInvalid?: boolean;
    apply(random: Random): string;
}

const MUTATIONS: Mutation[] = [
    {
        name: "another spelling of everything",
        apply: (random) => spell(random, shuffle(random, JSON.parse(HONEST))),
    },
    {
        name: "another checksum that the document states",
        apply: (random) => HONEST.replace("sha256:0000", `sha256:${random.below(10_000)}`),
    },
    {
        name: "white space",
        apply: (random) => HONEST.replaceAll(",", () => `,${" \r\n\t".repeat(random.below(4))}`),
    },
    {
        name: "spellings of numbers and escapes",
        apply(random) {
            const [before, after] = random.pick([
                ["2.5", "25e-1"],
                ["16", "16.0"],
                ["16", "1.6E+1"],
                ["1e-7", "0.0000001"],
                [": 0}", ": -0}"],
                [": 0}", ": 0.0e5}"],
                ["é", "\\u00e9"],
                ["\\u20ac", "€"],
                ["\\ud83d\\ude00", "😀"],
                ['"/', '"\\/'],
            ]);
            return HONEST.replace(before, after);
        },
    },
    {
        name: "a changed value",
        apply: (random) => change(random, (object, name) => (object[name] = lie(random))),
    },
    { name: "a removed member", apply: (random) => change(random, (object, name) => delete object[name]) },
    {
        name: "a new member",
        apply: (random) => change(random, (object, name) => (object[`${name}x`] = lie(random))),
    },
    {
        name: "another order of a list",
        apply: (random) => HONEST.replace('"b", "a"', random.pick(['"a", "b"', '"b" , "a"'])),
    },
    {
        name: "letters that look the same",
        apply: (random) => HONEST.replace("é", random.pick(["e\u0301", "\u00e9", "е\u0301"])),
    },
    {
        name: "a member twice",
        isInvalid: true,
        apply: (random) => HONEST.replace("{", `{"${random.pick(["name", "execution", "checksum"])}": 1,`),
    },
    {
        name: "half of a surrogate pair",
        isInvalid: true,
        apply: (random) => HONEST.replace("Paris", random.pick(["\\ud83d", "\\ude00\\ud83d", "\\uD800x"])),
    },
    {
        name: "numbers that are none",
        isInvalid: true,
        apply: (random) => HONEST.replace("16", random.pick(["1e400", "016", "+16", "0x10", "16.", "1e16"])),
    },
];

test("a registry that lies", async (context) => {
    let served = HONEST;
    const { url } = await serve(context, () => ({
        status: 200,
        headers: { "content-type": "application/json" },
        body: served,
    }));
    const registry = registryAt(url);
    const hit = { name: "ReadWeather", version: "1.0.0", checksum: await computeChecksum(HONEST) };
    const honest = content(HONEST);
    const random = new Random(33);
    const counts = { refused: 0, mismatches: 0, accepted: 0 };
    for (let i = 0; i < 1000; i++) {
        const { name, isInvalid, apply } = MUTATIONS[i % MUTATIONS.length] as Mutation;
        served = apply(random);
        const isLie = isInvalid || !isDeepStrictEqual(content(served), honest);
        const error = await registry.verifyChecksum(hit).then(
            () => undefined,
            (thrown: unknown) => thrown,
        );
        assert.equal(error !== undefined, isLie, `${name}: ${error}\n${served}`);
        counts[isLie ? "refused" : "accepted"]++;
        counts.mismatches += Number(error instanceof ChecksumMismatch);
    }
    context.diagnostic(`1,000 mutations: ${JSON.stringify(counts)}`);
    assert.ok(counts.mismatches > 200 && counts.accepted > 200, "the mutations are of one kind");
});

test("bytes that are not UTF-8 are refused", async (context) => {
    const body = Buffer.from(HONEST);
    body[body.indexOf("Paris")] = 0xff;
    const { url } = await serve(context, () => ({ status: 200, body }));
    await assert.rejects(registryAt(url).verifyChecksum("ReadWeather@1.0.0"), /UTF-8/);
});

/** Returns what a document means, read by another parser than that of the SDK. */
function content(text: string): Json {
    const { checksum: _, ...rest } = JSON.parse(text);
    // -0 is 0.
    return JSON.parse(JSON.stringify(rest));
}

function lie(random: Random): Json {
    return random.pick<Json>([null, true, 17, 0.25, "x", [], { a: 1 }, "", 3]);
}

/** Changes a random member of a random object. */
function change(random: Random, apply: (object: Json, name: string) => unknown): string {
    const document = JSON.parse(HONEST);
    const objects = objectsIn(document).filter((object) => Object.keys(object).length > 0);
    const object = random.pick(objects);
    apply(object, random.pick(Object.keys(object)));
    return JSON.stringify(document);
}

function objectsIn(value: Json): Json[] {
    if (typeof value !== "object" || value === null) {
        return [];
    }
    const inner = Object.values(value).flatMap(objectsIn);
    return Array.isArray(value) ? inner : [value, ...inner];
}

/** Returns the same value with its members in another order. */
function shuffle(random: Random, value: Json): Json {
    if (typeof value !== "object" || value === null) {
        return value;
    }
    if (Array.isArray(value)) {
        return value.map((item) => shuffle(random, item));
    }
    const entries = Object.entries(value).map(([name, member]) => ({
        name,
        member,
        key: random.below(1000),
    }));
    entries.sort((a, b) => a.key - b.key);
    return Object.fromEntries(entries.map(({ name, member }) => [name, shuffle(random, member)]));
}

/** Writes a value in one of many ways. */
function spell(random: Random, value: Json): string {
    const space = random.pick(["", " ", "\n", "\t "]);
    if (typeof value === "string") {
        const letters = Array.from({ length: value.length }, (_, i) => value[i] as string);
        return `"${letters.map((letter) => spellLetter(random, letter)).join("")}"`;
    }
    if (typeof value === "number") {
        return random.pick([
            String(value),
            value.toExponential(),
            `${value.toFixed(8)}`,
            `${value}e0`.replace("-7e0", "-07"),
        ]);
    }
    if (Array.isArray(value)) {
        return `[${space}${value.map((item) => spell(random, item)).join(`${space},${space}`)}]`;
    }
    if (value !== null && typeof value === "object") {
        const members = Object.entries(value).map(
            ([name, member]) => `${spell(random, name)}${space}:${space}${spell(random, member)}`,
        );
        return `{${members.join(`,${space}`)}${space}}`;
    }
    return String(value);
}

function spellLetter(random: Random, letter: string): string {
    const code = letter.charCodeAt(0);
    const isHalf = code >= 0xd800 && code < 0xe000;
    const escaped = `\\u${code.toString(16).padStart(4, "0")}`;
    return isHalf || random.below(4) === 0 ? escaped : JSON.stringify(letter).slice(1, -1);
}

/** Random numbers with a seed (mulberry32). */
class Random {
    constructor(private state: number) {}

    below(limit: number): number {
        this.state = (this.state + 0x6d2b79f5) | 0;
        let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
        mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
        return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
    }

    pick<T>(items: readonly T[]): T {
        return items[this.below(items.length)] as T;
    }
}
