/** The rules for versions, names and words: a document must be the one that was asked for. */
import type { CapabilityDocument } from "./checksum.js";
import { Drifted } from "./errors.js";

const VERSION = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$/;
const COMPARATOR =
    /^\s*(=|>=|<=|>|<|~|\^|)\s*(\d+|[*xX])(?:\.(\d+|[*xX]))?(?:\.(\d+|[*xX]))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?\s*$/;

/** Returns a version with three parts: documents may write `1.0` for `1.0.0`. */
export function fullVersion(version: string): string {
    const core = /^[0-9.]*/.exec(version)?.[0] ?? "";
    const missing = 3 - core.split(".").length;
    return core + ".0".repeat(core === "" ? 0 : Math.max(0, missing)) + version.slice(core.length);
}

/**
 * Returns whether a version is the wanted one, or in the wanted range. Nothing, `latest` and `*` want any version;
 * three numbers exactly this one; all else is a range of semantic versions, such as `^1.2`, `1.2` (the same),
 * `~1.2.3`, `1.*` or `>=1, <3`.
 */
export function satisfies(found: string, wanted: string | null | undefined): boolean {
    const version = fullVersion(found);
    if (!wanted || wanted === "latest" || wanted === "*") {
        return true;
    }
    if (VERSION.test(wanted)) {
        return version === wanted;
    }
    const parts = VERSION.exec(version);
    const comparators = wanted.split(",").map((part) => COMPARATOR.exec(part));
    if (parts === null || comparators.includes(null)) {
        return false;
    }
    const numbers = parts.slice(1, 4).map(Number);
    const pre = parts[4] ?? "";
    const rules = comparators.map((match) => readComparator(match as RegExpExecArray));
    // A preliminary version must be meant.
    const isMeant =
        pre === "" || rules.some((rule) => rule.pre !== "" && compare(numbers, rule.numbers) === 0);
    return isMeant && rules.every((rule) => accepts(rule, numbers, pre));
}

interface Comparator {
    sign: string;
    numbers: number[];
    pre: string;
}

function readComparator(match: RegExpExecArray): Comparator {
    const given = match.slice(2, 5).filter((part) => part !== undefined);
    const wild = given.findIndex((part) => !/^\d+$/.test(part));
    const numbers = (wild < 0 ? given : given.slice(0, wild)).map(Number);
    return { sign: match[1] || (wild < 0 ? "^" : "="), numbers, pre: match[5] ?? "" };
}

function accepts({ sign, numbers, pre: ownPre }: Comparator, found: number[], foundPre: string): boolean {
    const size = numbers.length;
    const order = compare(found.slice(0, size), numbers);
    const pre = size < 3 && sign !== "=" ? 0 : comparePre(foundPre, ownPre);
    switch (sign) {
        case "=":
            return order === 0 && pre === 0;
        case ">":
        case ">=":
            return order > 0 || (order === 0 && (sign === ">=" ? pre >= 0 : pre > 0));
        case "<":
        case "<=":
            return order < 0 || (order === 0 && (sign === "<=" ? pre <= 0 : pre < 0));
    }
    // `~` fixes the second number, `^` all up to the first that is not 0.
    const first = numbers.findIndex((number) => number > 0);
    const fixed = sign === "~" ? Math.min(size, 2) : first < 0 ? size : first + 1;
    return (
        compare(found.slice(0, fixed), numbers.slice(0, fixed)) === 0 &&
        (order > 0 || (order === 0 && pre >= 0))
    );
}

function compare(a: number[], b: number[]): number {
    const index = a.findIndex((number, i) => number !== b[i]);
    return index < 0 ? 0 : (a[index] as number) - (b[index] as number);
}

/** Compares preliminary versions: numbers come before words, and a version without one comes last. */
function comparePre(a: string, b: string): number {
    if (a === b || a === "" || b === "") {
        return a === b ? 0 : a === "" ? 1 : -1;
    }
    const [left, right] = [a.split("."), b.split(".")];
    for (const [i, one] of left.entries()) {
        const other = right[i];
        if (other === undefined) {
            return 1;
        }
        if (one !== other) {
            const [isNumber, isOther] = [/^\d+$/.test(one), /^\d+$/.test(other)];
            if (isNumber && isOther) {
                return Number(one) - Number(other);
            }
            return isNumber !== isOther ? (isNumber ? -1 : 1) : one < other ? -1 : 1;
        }
    }
    return -1;
}

/**
 * Refuses the document of another capability, or of another version than the wanted.
 *
 * @throws Drifted
 */
export function checkVersion(
    document: CapabilityDocument,
    name: string,
    wanted: string | null | undefined,
): void {
    if (document.name !== name) {
        throw new Drifted(`the registry has served the document of \`${document.name}\`, not of \`${name}\``);
    }
    if (!satisfies(document.version, wanted)) {
        throw new Drifted(
            `the registry has served the version ${document.version} of \`${name}\`, not ${wanted}`,
        );
    }
}

/**
 * Refuses a hit that says something else than its document. People and models choose by the words of a hit; the
 * checksum binds only the document.
 *
 * @throws Drifted
 */
export function compareWithHit(hit: object, document: CapabilityDocument): void {
    const said = hit as { description?: unknown; required_permissions?: unknown; parameters?: unknown };
    const differences: string[] = [];
    if (said.description !== undefined && said.description !== document.description) {
        differences.push(
            `description: ${JSON.stringify(said.description)} became ${JSON.stringify(document.description)}`,
        );
    }
    if (Array.isArray(said.required_permissions)) {
        const needed = (document["permissions"] ?? []) as string[];
        const missing = needed.filter((one) => !(said.required_permissions as unknown[]).includes(one));
        differences.push(
            ...missing.map((one) => `permissions: ${JSON.stringify(one)} is missing in the hit`),
        );
    }
    if (Array.isArray(said.parameters)) {
        const [ofHit, real] = [said.parameters, document["parameters"] ?? []].map(namesOf);
        if (ofHit !== real) {
            differences.push(`parameters: ${ofHit} became ${real}`);
        }
    }
    if (differences.length > 0) {
        throw new Drifted(
            `the registry says something else about \`${document.name}\` than its document does`,
            {
                hint: "Do not run it. Ask the owner of the registry why it describes another capability.",
                differences,
            },
        );
    }
}

function namesOf(parameters: unknown): string {
    return (parameters as { name: unknown }[])
        .map(({ name }) => String(name))
        .sort()
        .join(", ");
}
