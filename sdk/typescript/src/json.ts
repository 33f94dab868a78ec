/** Strict JSON: reading by RFC 8259 without its liberties, and writing in the form of RFC 8785. */

/** A value of JSON. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };

/** The largest number of levels of a text. A scalar has one. */
const MAX_LEVELS = 256;

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
// The characters of a string up to its end, an escape, or what may not stand in it.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it must find
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES: Record<string, string> = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    b: "\b",
    f: "\f",
    n: "\n",
    r: "\r",
    t: "\t",
};

/**
 * Parses a JSON text. Unlike `JSON.parse` it refuses a name that occurs twice in an object, an unpaired
 * surrogate, a number beyond the range of doubles, and more than 256 levels. It skips one byte order mark at
 * the beginning.
 *
 * @throws SyntaxError
 */
export function parseJson(text: string): JsonValue {
    return new Parser(text.startsWith("\ufeff") ? text.slice(1) : text).parse();
}

class Parser {
    #at = 0;

    constructor(private readonly text: string) {}

    parse(): JsonValue {
        const value = this.#value(1);
        this.#skipSpace();
        if (this.#at < this.text.length) {
            this.#fail("there is text after the value");
        }
        return value;
    }

    #value(level: number): JsonValue {
        if (level > MAX_LEVELS) {
            this.#fail(`there are more than ${MAX_LEVELS} levels`);
        }
        this.#skipSpace();
        switch (this.text[this.#at]) {
            case "{":
                return this.#object(level);
            case "[":
                return this.#list(level);
            case '"':
                return this.#string();
            case "t":
                return this.#word("true", true);
            case "f":
                return this.#word("false", false);
            case "n":
                return this.#word("null", null);
            default:
                return this.#number();
        }
    }

    #object(level: number): JsonValue {
        const object: { [name: string]: JsonValue } = {};
        this.#at++;
        if (this.#takes("}")) {
            return object;
        }
        do {
            this.#skipSpace();
            if (this.text[this.#at] !== '"') {
                this.#fail("a name is missing");
            }
            const name = this.#string();
            if (Object.hasOwn(object, name)) {
                this.#fail(`the name ${JSON.stringify(name)} occurs twice`);
            }
            this.#expect(":");
            const value = this.#value(level + 1);
            if (name === "__proto__") {
                // An assignment would set the prototype.
                Object.defineProperty(object, name, {
                    value,
                    enumerable: true,
                    configurable: true,
                    writable: true,
                });
            } else {
                object[name] = value;
            }
        } while (this.#takes(","));
        this.#expect("}");
        return object;
    }

    #list(level: number): JsonValue {
        const list: JsonValue[] = [];
        this.#at++;
        if (this.#takes("]")) {
            return list;
        }
        do {
            list.push(this.#value(level + 1));
        } while (this.#takes(","));
        this.#expect("]");
        return list;
    }

    #string(): string {
        this.#at++;
        let value = "";
        for (;;) {
            value += this.#match(PLAIN);
            const end = this.text[this.#at++];
            if (end === '"') {
                break;
            }
            if (end !== "\\") {
                this.#fail("a string has no end, or a control character");
            }
            value += this.#escape();
        }
        if (!value.isWellFormed()) {
            this.#fail("a string has half of a surrogate pair");
        }
        return value;
    }

    #escape(): string {
        const letter = this.text[this.#at++] ?? "";
        if (letter === "u") {
            const digits = this.text.slice(this.#at, this.#at + 4);
            if (!/^[0-9a-fA-F]{4}$/.test(digits)) {
                this.#fail("an escape is not valid");
            }
            this.#at += 4;
            return String.fromCharCode(Number.parseInt(digits, 16));
        }
        return ESCAPES[letter] ?? this.#fail("an escape is not valid");
    }

    #number(): number {
        const digits = this.#match(NUMBER);
        if (digits === "") {
            this.#fail("a value is missing");
        }
        const value = Number(digits);
        if (!Number.isFinite(value)) {
            this.#fail(`the number ${digits.slice(0, 40)} is beyond the range of doubles`);
        }
        return value;
    }

    #word<T>(word: string, value: T): T {
        if (!this.text.startsWith(word, this.#at)) {
            this.#fail("a value is missing");
        }
        this.#at += word.length;
        return value;
    }

    #match(pattern: RegExp): string {
        pattern.lastIndex = this.#at;
        const found = pattern.exec(this.text)?.[0] ?? "";
        this.#at += found.length;
        return found;
    }

    #skipSpace(): void {
        if (this.text.charCodeAt(this.#at) <= 0x20) {
            this.#match(SPACE);
        }
    }

    #takes(character: string): boolean {
        this.#skipSpace();
        const found = this.text[this.#at] === character;
        if (found) {
            this.#at++;
        }
        return found;
    }

    #expect(character: string): void {
        if (!this.#takes(character)) {
            this.#fail(`\`${character}\` is missing`);
        }
    }

    #fail(problem: string): never {
        throw new SyntaxError(`not valid JSON at character ${this.#at}: ${problem}`);
    }
}

/**
 * Returns the canonical form of a value by RFC 8785. Members that are `undefined` are left out, as in
 * `JSON.stringify`.
 *
 * @throws TypeError for what is not a value of JSON: an infinite number, half of a surrogate pair, a function, a
 * date or a map, or more than 256 levels
 */
export function canonicalize(value: unknown): string {
    return write(value, 1);
}

function write(value: unknown, level: number): string {
    if (level > MAX_LEVELS) {
        throw new TypeError(`a value with more than ${MAX_LEVELS} levels`);
    }
    if (value === null || typeof value === "boolean") {
        return String(value);
    }
    if (typeof value === "number" && Number.isFinite(value)) {
        // RFC 8785 takes the numbers of ECMAScript. -0 is written as 0.
        return String(value);
    }
    if (typeof value === "string") {
        return quote(value);
    }
    if (Array.isArray(value)) {
        return `[${value.map((item) => write(item, level + 1)).join(",")}]`;
    }
    if (typeof value === "object" && isPlain(value)) {
        // `sort` compares UTF-16 code units, as RFC 8785 demands.
        const members = Object.entries(value)
            .filter(([, member]) => member !== undefined)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([name, member]) => `${quote(name)}:${write(member, level + 1)}`);
        return `{${members.join(",")}}`;
    }
    throw new TypeError(`${String(value)} is not a value of JSON`);
}

/** Returns whether an object has only its members: a `Map` or a `Date` would lose its content. */
function isPlain(value: object): boolean {
    const prototype = Object.getPrototypeOf(value);
    return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function quote(text: string): string {
    if (!text.isWellFormed()) {
        throw new TypeError("a string has half of a surrogate pair");
    }
    return JSON.stringify(text);
}
