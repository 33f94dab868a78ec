/** Capabilities as tools of a language model: what all adapters share. */
import {
    A2SError,
    Conflict,
    Denied,
    Drifted,
    InvalidInput,
    MissingInput,
    NeedsApproval,
    NotFound,
} from "./errors.js";
import { canonicalize } from "./json.js";
import {
    type A2SRegistry,
    type Capability,
    parseReference,
    type RunOptions,
    toReference,
} from "./registry.js";
import type { Plan, Run } from "./run.js";
import type { SearchResult } from "./search.js";
import type { RequestOptions } from "./transport.js";
import type {
    InputField,
    PlanResponse,
    RunApproval,
    SearchFilters,
    SearchHit,
    Strategy,
    Values,
} from "./types.js";

/**
 * The most things of a kind that a toolbox remembers: hits that searches have returned to the model, plans that a
 * person has seen, and runs that wait for a person. The oldest are forgotten.
 */
const MAX_REMEMBERED = 1000;

/** Has a person asked about an approval that a run waits for, and returns the decision. */
export type Ask = (waiting: NeedsApproval, approval: RunApproval) => boolean | Promise<boolean>;

const CONTINUE = "The same call with the same inputs goes on with this run.";

const CAPABILITY = {
    type: "string",
    description: "The member `capability` of a result of search_capabilities, such as `GetCountry@1.0.0`.",
};
const INPUTS = { type: "object", description: "The inputs by name, as the search described them." };

/** A JSON Schema. */
export interface ToolSchema {
    type: "object";
    properties: Record<string, object>;
    required: string[];
    additionalProperties: false;
}

/** Options of a toolbox. */
export interface ToolboxOptions {
    /**
     * A registry with the owner's token. With it, the approval of a person at the host is the approval that
     * the guardian wants. Without it, a run waits until somebody approves it at A2S.
     */
    approver?: A2SRegistry;
    /** Has a person asked about a request that the guardian wants approved, where the host cannot ask within a call. */
    onApproval?: Ask;
    /** Whether a person is asked before each run. Otherwise before those that the guardian names. */
    alwaysAsk?: boolean;
    /** The session of all runs, whose remembered values are inputs. */
    session?: string;
    /** The largest number of hits of a search (5). */
    limit?: number;
    /** Ranks the capabilities that fit. */
    strategy?: Strategy;
    /** Excludes capabilities. */
    filters?: SearchFilters;
}

/** Options of a call of a tool. */
export interface ToolCallOptions extends RequestOptions {
    /** Whether a person has approved this call at the host. The yes holds for what the run waits for first. */
    approved?: boolean;
    /** Has a person asked about each further request that the guardian wants approved. */
    ask?: Ask;
    /** The name of the call, by {@link keyOf}: the same key gives the same run. */
    key?: string | undefined;
}

/** Returns an idempotency key for the call that these parts name: conversation, call and arguments. */
export async function keyOf(...parts: unknown[]): Promise<string> {
    const bytes = new TextEncoder().encode(canonicalize(JSON.parse(JSON.stringify(parts))));
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A tool of a language model: one capability, or a part of the search for them. */
export interface A2STool {
    /** The name, in the letters that all models accept. */
    name: string;
    /** The function of the tool, for the model. */
    description: string;
    /** The schema of the arguments. */
    schema: ToolSchema;
    /** Does what the tool does, and returns the result. An error of A2S is a result, too: the model can act on it. */
    call(args: Values, options?: ToolCallOptions): Promise<unknown>;
    /** Returns whether the host must ask a person before this call. */
    needsApproval(args: Values, options?: RequestOptions): Promise<boolean>;
}

/** A capability with the inputs of a call. */
interface Target {
    capability: Capability;
    inputs: Values;
    intent?: string;
}

/** Makes tools from capabilities. */
export class Toolbox {
    readonly #found = new Map<string, { intent: string; hit: SearchHit }>();
    readonly #shown = new Map<string, Plan>();
    /** The runs of calls, by their keys, and those that were reported to the model, by their content. */
    readonly #begun = new Map<string, string>();
    readonly #waiting = new Map<string, string>();

    constructor(
        private readonly registry: A2SRegistry,
        private readonly options: ToolboxOptions = {},
    ) {}

    /** Returns a typed tool for each `NAME@VERSION#CHECKSUM`, whose document is verified here. */
    async pinned(references: readonly string[], options: RequestOptions = {}): Promise<A2STool[]> {
        const tools = await Promise.all(
            references.map(async (reference) => {
                if (!parseReference(reference).checksum) {
                    throw new InvalidInput(`\`${reference}\` has no checksum`, {
                        hint: "Write NAME@VERSION#CHECKSUM.",
                    });
                }
                const document = await this.registry.verifyChecksum(reference, options);
                const parameters = (document["parameters"] ?? []) as InputField[];
                return this.#capabilityTool(reference, document.name, document.description, parameters);
            }),
        );
        const names = tools.map(({ name }) => name);
        if (new Set(names).size < names.length) {
            throw new InvalidInput("two pinned capabilities have the same name");
        }
        return tools;
    }

    /** Returns a typed tool for each capability that fits an intent, best first. Their documents are verified here. */
    async find(intent: string, options: RequestOptions = {}): Promise<A2STool[]> {
        const hits = await this.#search(intent, options);
        return Promise.all(
            hits.map(async (hit) => {
                const { description } = await this.registry.verifyChecksum(hit, options);
                return this.#capabilityTool(hit, hit.name, description, hit.parameters);
            }),
        );
    }

    /** Returns the names of the tools among the given ones that fit an intent, best first. */
    async rank(intent: string, names: readonly string[], options: RequestOptions = {}): Promise<string[]> {
        const hits = await this.#search(intent, options);
        return hits.map(({ name }) => toolName(name)).filter((name) => names.includes(name));
    }

    /** Returns the three tools with which a model searches, plans and runs. */
    searchTools(): A2STool[] {
        return [
            this.#tool({
                name: "search_capabilities",
                description:
                    "Finds capabilities that do a task. Describe one task in plain words. Use it first.",
                schema: schemaOf({ intent: { type: "string", description: "The task, in plain words." } }, [
                    "intent",
                ]),
                run: async (args, options) =>
                    describeHits(await this.#search(textOf(args, "intent"), options)),
            }),
            this.#tool({
                name: "plan_capability",
                description:
                    "Shows what a run of a capability would do: requests, hosts, missing inputs. Sends nothing.",
                schema: schemaOf({ capability: CAPABILITY, inputs: INPUTS }, ["capability"]),
                run: async (args, options) => {
                    const { capability, inputs } = this.#foundTarget(args);
                    return describePlan(await this.#plan(capability, inputs, false, options));
                },
            }),
            this.#tool({
                name: "run_capability",
                description:
                    "Runs a capability that a search has found, with its inputs, and returns its output.",
                schema: schemaOf({ capability: CAPABILITY, inputs: INPUTS }, ["capability"]),
                run: async (args, options) => {
                    const target = this.#foundTarget(args);
                    await this.registry.verifyChecksum(target.capability, options);
                    return this.#run(target, options);
                },
                target: (args) => this.#foundTarget(args),
            }),
        ];
    }

    #capabilityTool(
        capability: Capability,
        name: string,
        description: string,
        parameters: readonly InputField[],
    ): A2STool {
        const target = (inputs: Values): Target => ({ capability, inputs });
        return this.#tool({
            name: toolName(name),
            description,
            schema: inputSchema(parameters),
            run: (args, options) => this.#run(target(args), options),
            target,
        });
    }

    /** Makes a tool. A tool with a target runs a capability, and may need an approval. */
    #tool(definition: {
        name: string;
        description: string;
        schema: ToolSchema;
        run: (args: Values, options: ToolCallOptions) => Promise<unknown>;
        target?: (args: Values) => Target;
    }): A2STool {
        const { name, description, schema, run, target } = definition;
        return {
            name,
            description,
            schema,
            call: async (args, options = {}) => {
                try {
                    return asJson(await run(args, options));
                } catch (error) {
                    // The host has stopped the call: it knows the reason, and the run is cancelled.
                    options.signal?.throwIfAborted();
                    if (error instanceof A2SError) {
                        return asJson(describeError(error));
                    }
                    throw error;
                }
            },
            needsApproval: async (args, options = {}) => {
                if (target === undefined) {
                    return false;
                }
                try {
                    return await this.#needsApproval(target(args), options);
                } catch (error) {
                    if (error instanceof A2SError) {
                        // The call itself reports the error to the model.
                        return this.options.alwaysAsk ?? false;
                    }
                    throw error;
                }
            },
        };
    }

    async #needsApproval(target: Target, options: RequestOptions): Promise<boolean> {
        const call = await nameOf(target);
        if (this.#waiting.has(call)) {
            return true;
        }
        const plan = await this.#plan(target.capability, target.inputs, true, options);
        remember(this.#shown, call, plan);
        return this.options.alwaysAsk === true || wantsApproval(plan.steps);
    }

    async #plan(
        capability: Capability,
        inputs: Values,
        preview: boolean,
        { signal }: RequestOptions,
    ): Promise<Plan> {
        return this.registry.plan(capability, { inputs, preview, signal, ...this.#session() });
    }

    async #run(target: Target, options: ToolCallOptions): Promise<unknown> {
        const call = await nameOf(target);
        const run = await this.#begin(call, target, options);
        return run.own("cancel", options, async () => (await this.#settle(call, run, options)).output);
    }

    /** Returns the run of this call, or the one that an equal call has left waiting; else starts one. */
    async #begin(call: string, target: Target, { key, signal }: ToolCallOptions): Promise<Run> {
        const { capability, inputs, intent } = target;
        const known = this.#begun.get(key ?? "") ?? this.#waiting.get(call);
        if (known !== undefined) {
            return this.registry.getRun(known, { signal });
        }
        const start = {
            signal,
            wait: false,
            ...(intent !== undefined && { intent }),
            ...(key !== undefined && { idempotencyKey: key }),
        };
        const shown = this.#shown.get(call);
        this.#shown.delete(call);
        const run = shown?.token
            ? await this.#runShown(shown, target, start)
            : await this.registry.run(capability, { inputs, ...start, ...this.#session() });
        if (key !== undefined) {
            remember(this.#begun, key, run.id);
        }
        return run;
    }

    /** Runs the plan that a person has seen. */
    async #runShown(shown: Plan, { capability, inputs }: Target, start: RunOptions): Promise<Run> {
        try {
            return await shown.run(start);
        } catch (error) {
            if (!(error instanceof NotFound)) {
                throw error;
            }
            // Its token has expired: plans that show the same are the same.
            const plan = await this.#plan(capability, inputs, true, start);
            const look = ({ capability: taken, steps }: Plan): string => canonicalize(asJson([taken, steps]));
            if (look(plan) !== look(shown)) {
                throw new Drifted("the run would differ from the plan that was shown");
            }
            return plan.run(start);
        }
    }

    /** Waits for the end of a run, and has a person asked about each approval that it waits for. */
    async #settle(call: string, run: Run, options: ToolCallOptions): Promise<Run> {
        const { approver } = this.options;
        const { signal, ask = this.options.onApproval } = options;
        let { approved = false } = options;
        // Another run has used up these approvals, so that the yes for this run still holds.
        const unused = new Set<string>();
        let waiting: NeedsApproval | undefined;
        for (;;) {
            try {
                const done = await (waiting === undefined
                    ? run.wait({ signal })
                    : run.waitForDecision({ signal }));
                this.#waiting.delete(call);
                return done;
            } catch (error) {
                if (!(error instanceof NeedsApproval)) {
                    this.#waiting.delete(call);
                    throw error;
                }
                waiting = error;
            }
            for (const approval of waiting.approvals) {
                const subject = subjectOf(approval);
                const isCovered = approved || unused.has(subject);
                if (isCovered ? approver === undefined : ask === undefined) {
                    remember(this.#waiting, call, run.id);
                    throw waiting;
                }
                if (!isCovered && !(await ask?.(waiting, approval))) {
                    await this.#reject(waiting, run);
                }
                unused.delete(subject);
                if (
                    approver !== undefined &&
                    !(await isDecidedBy(approver.approve(approval.id, { signal })))
                ) {
                    unused.add(subject);
                }
            }
            approved = false;
            if (approver !== undefined) {
                // The executor asks the guardian at once, unless the run has gone on by itself.
                await isDecidedBy(this.registry.resumeRun(run.id, "repeat", { signal }));
            }
        }
    }

    /** Does what a person at the host has decided, and throws `Denied`. */
    async #reject(waiting: NeedsApproval, run: Run): Promise<never> {
        const { approver } = this.options;
        if (approver === undefined) {
            await run.cancel();
        }
        for (const { id } of approver === undefined ? [] : waiting.approvals) {
            await isDecidedBy(approver?.reject(id));
        }
        throw new Denied("a person did not approve the call", { code: waiting.code, run });
    }

    #session(): { session?: string } {
        const { session } = this.options;
        return session === undefined ? {} : { session };
    }

    async #search(intent: string, { signal }: RequestOptions): Promise<SearchResult> {
        const { limit = 5, strategy, filters } = this.options;
        const hits = await this.registry.searchCapabilities(intent, {
            limit,
            signal,
            ...(strategy !== undefined && { strategy }),
            ...(filters !== undefined && { filters }),
        });
        for (const hit of hits) {
            remember(this.#found, handleOf(hit), { intent, hit });
        }
        return hits;
    }

    /** Returns the capability that a model names. Only what a search has found has a checksum. */
    #foundTarget(args: Values): Target {
        const handle = textOf(args, "capability");
        const inputs = args["inputs"] ?? {};
        if (typeof inputs !== "object" || Array.isArray(inputs)) {
            throw new InvalidInput("`inputs` must be an object");
        }
        const found = this.#found.get(handle);
        if (found === undefined) {
            throw new InvalidInput(`no search has returned ${JSON.stringify(handle.slice(0, 100))}`, {
                hint: "Call search_capabilities, and use `capability` of one of its results.",
            });
        }
        return { capability: found.hit, inputs: inputs as Values, intent: found.intent };
    }
}

/** Returns the name of a call in what a toolbox remembers. */
async function nameOf({ capability, inputs }: Target): Promise<string> {
    return canonicalize(asJson([await toReference(capability), inputs]));
}

function remember<T>(memory: Map<string, T>, name: string, value: T): void {
    memory.delete(name);
    memory.set(name, value);
    for (const oldest of [...memory.keys()].slice(0, -MAX_REMEMBERED)) {
        memory.delete(oldest);
    }
}

/** Returns the subject of an approval: equal for two approvals of one request of a run. */
function subjectOf({ id: _, guardian: __, expires_at: ___, ...subject }: RunApproval): string {
    return canonicalize(asJson(subject));
}

/** Returns whether a decision was accepted: it may have been made already. */
async function isDecidedBy(decision: Promise<unknown> | undefined): Promise<boolean> {
    try {
        await decision;
        return true;
    } catch (error) {
        if (error instanceof NotFound || error instanceof Conflict) {
            return false;
        }
        throw error;
    }
}

/** Returns the name of a tool, in the letters that all models accept. */
function toolName(name: string): string {
    return name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64);
}

/**
 * Returns the JSON Schema of inputs, as a document or a hit declares them. Secret inputs are not part of it:
 * a model must neither see nor invent them.
 */
export function inputSchema(parameters: readonly InputField[]): ToolSchema {
    const visible = parameters.filter(({ secret }) => secret !== true);
    const required = visible.filter((parameter) => parameter.required ?? !("default" in parameter));
    return schemaOf(
        Object.fromEntries(visible.map((parameter) => [parameter.name, parameterSchema(parameter)])),
        required.map(({ name }) => name),
    );
}

function parameterSchema(parameter: InputField & { type?: unknown; enum?: unknown }): object {
    const { schema, type, default: value, description } = parameter;
    const own = { type, enum: parameter.enum, default: value, description: description ?? undefined };
    const members = Object.entries(own).filter(([, member]) => member !== undefined);
    return { ...(typeof schema === "object" ? schema : {}), ...Object.fromEntries(members) };
}

function schemaOf(properties: Record<string, object>, required: string[]): ToolSchema {
    return { type: "object", properties, required, additionalProperties: false };
}

function textOf(args: Values, name: string): string {
    const value = args[name];
    if (typeof value !== "string") {
        throw new InvalidInput(`\`${name}\` must be a text`);
    }
    return value;
}

function handleOf({ name, version }: SearchHit): string {
    return `${name}@${version}`;
}

function describeHits(hits: SearchResult): object {
    if (hits.length === 0) {
        const nearest = hits.nearest.map(({ name, description }) => `${name}: ${description}`);
        return { capabilities: [], message: "nothing fits", nearest };
    }
    return {
        capabilities: hits.map((hit) => ({
            capability: handleOf(hit),
            description: hit.description,
            match: hit.match,
            inputs: inputSchema(hit.parameters),
            extracted: hit.extracted,
        })),
    };
}

function describePlan(plan: PlanResponse): object {
    const { missing, hosts, permissions, steps, no_token_reason } = plan;
    return { missing, hosts, permissions, steps, no_token_reason };
}

/** Returns an error as a model reads it: what happened, and what to do. */
export function describeError(error: A2SError): object {
    const { code, message, next } = error;
    const isWaiting = error instanceof NeedsApproval;
    return {
        error: error.name,
        code,
        message,
        hint: isWaiting ? `${error.hint ?? ""} ${CONTINUE}`.trim() : error.hint,
        next,
        run: error.run?.id,
        missing: error instanceof MissingInput ? error.missing : undefined,
        approvals: error instanceof NeedsApproval ? error.approvals : undefined,
        differences: error instanceof Drifted ? error.differences : undefined,
    };
}

/** Returns a value without the members that are undefined, which some hosts refuse. */
function asJson(value: unknown): unknown {
    return JSON.parse(JSON.stringify(value ?? null));
}

/** Returns whether the guardian wants the approval of a person for a step of a plan with a preview. */
function wantsApproval(value: unknown): boolean {
    if (typeof value !== "object" || value === null) {
        return false;
    }
    const codes = "reason_codes" in value && "decision" in value ? value.reason_codes : undefined;
    return (
        (Array.isArray(codes) && codes.includes("approval_required")) ||
        Object.values(value).some((member) => wantsApproval(member))
    );
}
