/** The semantic difference of two documents of a capability, and what of it breaks callers. Pure. */
import { credentialsOf, type Input, inputsOf, outputsOf, typeOf } from "./capability-interface";
import { stepsOf } from "./capability-steps";
import { itemsOf, type Members, membersOf, sortedJson, textOf, textsOf } from "./capability-values";

export interface Change {
    kind: "added" | "removed" | "changed";
    /** What has changed: the name of an input, the path of a step, a host. */
    name: string;
    before?: string;
    after?: string;
    /** What callers must do or lose. Absent for a change that breaks none. */
    breaking?: string;
}

export interface ChangeGroup {
    title: string;
    changes: Change[];
}

/** Returns the changes by their kind of thing, without the groups in which nothing has changed. */
export function compareDocuments(before: Members, after: Members): ChangeGroup[] {
    const groups: ChangeGroup[] = [
        { title: "Inputs", changes: compareInputs(inputsOf(before), inputsOf(after)) },
        { title: "Outputs", changes: compareOutputs(before, after) },
        { title: "Hosts", changes: compareHosts(before, after) },
        { title: "Credentials", changes: compareCredentials(before, after) },
        { title: "Permissions", changes: comparePermissions(before, after) },
        { title: "Capabilities that it uses", changes: compareDependencies(before, after) },
        { title: "Steps", changes: compareSteps(before, after) },
        { title: "Texts", changes: compareTexts(before, after) },
    ];
    return groups.filter(({ changes }) => changes.length > 0);
}

/** Returns what callers must do or lose. */
export function breakingChanges(groups: ChangeGroup[]): string[] {
    return groups.flatMap(({ changes }) => changes.flatMap(({ breaking }) => (breaking ? [breaking] : [])));
}

/** Compares things by their names: those of `after` in their order, then those that are gone. */
function compareByName<T>(
    before: Map<string, T>,
    after: Map<string, T>,
    wordsOf: (item: T) => string,
    breaking: (name: string, before: T | undefined, after: T | undefined) => string | undefined = () =>
        undefined,
): Change[] {
    const changes: Change[] = [];
    const push = (kind: Change["kind"], name: string, a: T | undefined, b: T | undefined): void => {
        const reason = breaking(name, a, b);
        changes.push({
            kind,
            name,
            ...(a === undefined ? {} : { before: wordsOf(a) }),
            ...(b === undefined ? {} : { after: wordsOf(b) }),
            ...(reason === undefined ? {} : { breaking: reason }),
        });
    };
    for (const [name, item] of after) {
        const old = before.get(name);
        if (old === undefined) {
            push("added", name, undefined, item);
        } else if (wordsOf(old) !== wordsOf(item) || breaking(name, old, item) !== undefined) {
            push("changed", name, old, item);
        }
    }
    for (const [name, item] of before) {
        if (!after.has(name)) {
            push("removed", name, item, undefined);
        }
    }
    return changes;
}

function describeInput(input: Input): string {
    const choices = itemsOf(input.schema["enum"]).map((choice) => JSON.stringify(choice));
    const limits = ["minimum", "maximum", "minLength", "maxLength", "pattern"].flatMap((name) =>
        input.schema[name] === undefined ? [] : [`${name} ${String(input.schema[name])}`],
    );
    return [
        typeOf(input.schema) ?? "any type",
        input.required ? "required" : "optional",
        input.secret ? "secret" : "",
        Object.hasOwn(input, "default") ? `default ${JSON.stringify(input.default)}` : "",
        choices.length > 0 ? `one of ${choices.join(", ")}` : "",
        ...limits,
    ]
        .filter(Boolean)
        .join(", ");
}

function compareInputs(before: Input[], after: Input[]): Change[] {
    const byName = (inputs: Input[]) => new Map(inputs.map((input) => [input.name, input]));
    return compareByName(byName(before), byName(after), describeInput, breakingInput);
}

function breakingInput(
    name: string,
    before: Input | undefined,
    after: Input | undefined,
): string | undefined {
    if (after === undefined) {
        return `Callers cannot give \`${name}\` any more.`;
    }
    if (before === undefined) {
        return after.required ? `Callers must give \`${name}\`.` : undefined;
    }
    if (after.required && !before.required) {
        return `Callers must give \`${name}\`, which was optional.`;
    }
    const [from, to] = [typeOf(before.schema), typeOf(after.schema)];
    const isWider = to === undefined || from === to || (from === "integer" && to === "number");
    if (!isWider && to !== "choice") {
        return `Callers must give \`${name}\` as ${to}; it was ${from ?? "of any type"}.`;
    }
    const accepted = itemsOf(after.schema["enum"]).map((choice) => JSON.stringify(choice));
    if (accepted.length > 0) {
        const old = itemsOf(before.schema["enum"]).map((choice) => JSON.stringify(choice));
        if (old.length === 0) {
            return `Callers must give \`${name}\` as one of ${accepted.join(", ")}.`;
        }
        const gone = old.filter((choice) => !accepted.includes(choice));
        if (gone.length > 0) {
            return `\`${name}\` no longer accepts ${gone.join(", ")}.`;
        }
    }
    return undefined;
}

function compareOutputs(before: Members, after: Members): Change[] {
    const byName = (document: Members) =>
        new Map(outputsOf(document).map(({ name, type }) => [name, type ?? "any type"]));
    return compareByName(
        byName(before),
        byName(after),
        (type) => type,
        (name, from, to) => {
            if (to === undefined) {
                return `Callers no longer get \`${name}\`.`;
            }
            const isSame = from === undefined || from === to || from === "any type" || to === "any type";
            return isSame ? undefined : `Callers get \`${name}\` as ${to}; it was ${from}.`;
        },
    );
}

const setOf = (values: string[]): Map<string, string> => new Map(values.map((value) => [value, ""]));

function compareHosts(before: Members, after: Members): Change[] {
    return compareByName(setOf(textsOf(before["domains"])), setOf(textsOf(after["domains"])), () => "");
}

function compareCredentials(before: Members, after: Members): Change[] {
    const byPlace = (document: Members) =>
        new Map(credentialsOf(document).map(({ host, scheme, type }) => [`${scheme} at ${host}`, type]));
    return compareByName(
        byPlace(before),
        byPlace(after),
        (type) => type,
        (name, from, to) => {
            const isNeeded = to !== undefined && from !== to;
            return isNeeded ? `The executor needs the credential ${name} (${to}).` : undefined;
        },
    );
}

function comparePermissions(before: Members, after: Members): Change[] {
    const [old, next] = [setOf(textsOf(before["permissions"])), setOf(textsOf(after["permissions"]))];
    return compareByName(
        old,
        next,
        () => "",
        (name, from, to) =>
            from === undefined && to !== undefined
                ? `Callers must hold the permission \`${name}\`.`
                : undefined,
    );
}

function compareDependencies(before: Members, after: Members): Change[] {
    const byName = (document: Members) =>
        new Map(
            itemsOf(document["dependencies"]).map((item) => {
                const { capability, version, checksum } = membersOf(item);
                const pin = checksum === undefined ? "" : `, pinned to ${String(checksum)}`;
                return [String(capability), `${String(version)}${pin}`] as const;
            }),
        );
    return compareByName(byName(before), byName(after), (text) => text);
}

const NESTED = ["steps", "if_true", "if_false", "catch"];

function compareSteps(before: Members, after: Members): Change[] {
    interface Described {
        summary: string;
        parts: Map<string, string>;
    }
    const byPath = (document: Members) =>
        new Map(
            stepsOf(document).map(({ path, kind, summary, source, task }): [string, Described] => {
                const own = Object.entries(source).filter(([name]) => !NESTED.includes(name));
                const parts = own.map(([name, value]): [string, string] => [
                    name,
                    sortedJson(name === "task" || name === "definition" ? task : value),
                ]);
                return [path, { summary: [kind, summary].filter(Boolean).join(" "), parts: new Map(parts) }];
            }),
        );
    const [old, next] = [byPath(before), byPath(after)];
    const changes = compareByName(old, next, ({ summary, parts }) => summary + sortedJson([...parts]));
    return changes.map(({ kind, name }) => {
        const [from, to] = [old.get(name), next.get(name)];
        const parts = new Set([...(from?.parts.keys() ?? []), ...(to?.parts.keys() ?? [])]);
        const changed = [...parts].filter((part) => from?.parts.get(part) !== to?.parts.get(part));
        const isSame = from?.summary === to?.summary;
        return {
            kind,
            name,
            ...(from ? { before: from.summary } : {}),
            ...(to ? { after: isSame ? `${to.summary}: another ${changed.join(", ")}` : to.summary } : {}),
        };
    });
}

function compareTexts(before: Members, after: Members): Change[] {
    const names = (document: Members) => new Set(inputsOf(document).map(({ name }) => name));
    const both = new Set([...names(before)].filter((name) => names(after).has(name)));
    const byPlace = (document: Members) => {
        const texts = new Map<string, string>();
        texts.set("description", textOf(document["description"]) ?? "");
        for (const { name, description, patterns } of inputsOf(document).filter(({ name }) =>
            both.has(name),
        )) {
            texts.set(`description of ${name}`, description ?? "");
            texts.set(`patterns of ${name}`, patterns.join(" | "));
        }
        for (const [index, example] of itemsOf(document["examples"]).entries()) {
            texts.set(`intent of example ${index + 1}`, textOf(membersOf(example)["intent"]) ?? "");
        }
        return new Map([...texts].filter(([, text]) => text !== ""));
    };
    return compareByName(byPlace(before), byPlace(after), (text) => text);
}
