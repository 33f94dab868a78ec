/** The agent: requests in plain words. Also the executor and the remembered values, as the text of A2S names them. */
import { A2SError, InvalidInput } from "./errors.js";
import type { A2SRegistry, Capability, RunOptions, StateOptions } from "./registry.js";
import type { Run } from "./run.js";
import type { RequestOptions } from "./transport.js";
import type { OptionsArgument, OutputOf } from "./typed.js";
import type {
    AgentEvent,
    AgentQuestion,
    AgentRequest,
    AgentResponse,
    PlanResponse,
    SearchFilters,
    StateEntry,
    Strategy,
    Values,
} from "./types.js";

/** The largest number of turns of one request: a server could ask forever. */
const MAX_TURNS = 64;

/** A reply to a question: inputs, a choice or other words, or nothing. */
export type Reply = Values | string | null | undefined;

/** Options of a request to the agent. */
export interface HandleOptions extends RequestOptions {
    /**
     * Replies to a question with inputs, or with words such as the name of a choice. With nothing as the
     * reply, or without this function, the result is the response with the question.
     */
    onQuestion?: (question: AgentQuestion) => Reply | Promise<Reply>;
    /**
     * Decides about the `actions` of a question, which are not known to be read-only, about its `delegation`
     * to another agent, or about its `proposal` of a chain of capabilities. Without this function, the result
     * is the response with the question.
     */
    onConsent?: (question: AgentQuestion) => boolean | Promise<boolean>;
    /** Gets each event as it happens. */
    onEvent?: (event: AgentEvent) => void;
    /** The conversation to continue. Without it, the last one. */
    session?: string;
    /** `values` of the last response of the conversation. */
    context?: Values;
    /** Ranks the capabilities that fit. */
    strategy?: Strategy;
    /** Excludes capabilities. */
    filters?: SearchFilters;
}

/** Finds and runs capabilities for requests in plain words. */
export class A2SAgent {
    #registries: A2SRegistry[] = [];
    #session: string | undefined;

    /** Sets the registries whose agents are asked, in their order. Begins a new conversation. */
    useRegistries(registries: readonly A2SRegistry[]): this {
        this.#registries = [...registries];
        this.#session = undefined;
        return this;
    }

    /**
     * Carries out a request. The agent of the next registry is asked while nothing fits. Returns the last
     * response, whose status says how the request ended.
     */
    async handleRequest(query: string, options: HandleOptions = {}): Promise<AgentResponse> {
        const { session = this.#session, context, strategy, filters } = options;
        let response: AgentResponse | undefined;
        for (const registry of this.#registries) {
            const request = given<AgentRequest>({ message: query, session, context, strategy, filters });
            response = await converse(registry, request, options);
            if (response.status !== "nothing_fits") {
                break;
            }
        }
        if (response === undefined) {
            throw new InvalidInput("the agent has no registry", { hint: "Call `useRegistries` first." });
        }
        this.#session = response.session;
        return response;
    }
}

/** Takes turns until the agent asks nothing, or gets no reply. */
async function converse(
    registry: A2SRegistry,
    first: AgentRequest,
    options: HandleOptions,
): Promise<AgentResponse> {
    let request = first;
    for (let turn = 0; turn < MAX_TURNS; turn++) {
        const response = await takeTurn(registry, request, options);
        const { question } = response;
        if (response.status !== "input_required" || !question) {
            return response;
        }
        const reply = await replyTo(question, options);
        if (reply === null || reply === undefined) {
            return response;
        }
        const words = typeof reply === "string" ? { message: reply } : { message: "", inputs: reply };
        request = { ...words, session: response.session, pending: question.pending };
    }
    throw new A2SError("the agent does not stop asking");
}

async function takeTurn(
    registry: A2SRegistry,
    request: AgentRequest,
    { onEvent, signal }: HandleOptions,
): Promise<AgentResponse> {
    let response: AgentResponse | undefined;
    for await (const event of registry.askAgent(request, { signal })) {
        onEvent?.(event);
        if (event.type === "response") {
            const { type: _, ...members } = event;
            response = members;
        }
    }
    if (response === undefined) {
        throw new A2SError("the response of the agent cannot be read");
    }
    return response;
}

async function replyTo(question: AgentQuestion, options: HandleOptions): Promise<Reply> {
    const { actions = [], delegation, proposal } = question;
    if (actions.length === 0 && !delegation && !proposal) {
        return options.onQuestion?.(question);
    }
    if (options.onConsent === undefined) {
        return undefined;
    }
    return (await options.onConsent(question)) ? "yes" : "no";
}

/** The values that the executor remembers: those of a session, or those that stay. */
export class StateStore {
    readonly #registry: A2SRegistry;
    /** The session, unless the values stay. */
    readonly session: string | undefined;

    constructor(registry: A2SRegistry, session?: string) {
        this.#registry = registry;
        this.session = session;
    }

    /** Returns a value, or undefined if none is remembered. */
    async get(name: string, options: RequestOptions = {}): Promise<unknown> {
        return (await this.list(options)).find((entry) => entry.name === name)?.value;
    }

    /** Remembers a value, which is JSON. */
    async set(name: string, value: unknown, options: RequestOptions = {}): Promise<void> {
        await this.#registry.setState(name, value, this.#options(options));
    }

    /** Forgets a value. */
    async delete(name: string, options: RequestOptions = {}): Promise<void> {
        await this.#registry.deleteState(name, this.#options(options));
    }

    /** Returns all values. */
    async list(options: RequestOptions = {}): Promise<StateEntry[]> {
        return this.#registry.listState(this.#options(options));
    }

    #options(options: RequestOptions): StateOptions {
        return { ...options, session: this.session };
    }
}

/** Runs capabilities. With a `StateStore`, runs belong to its session and use its values. */
export class CapabilityExecutor {
    readonly #registry: A2SRegistry;
    readonly #session: string | undefined;

    constructor(registry: A2SRegistry, stateStore?: StateStore) {
        this.#registry = registry;
        this.#session = stateStore?.session;
    }

    /** See `A2SRegistry.run`. */
    run<C extends Capability | PlanResponse>(
        capability: C,
        ...options: OptionsArgument<C, RunOptions>
    ): Promise<Run<OutputOf<C>>>;
    async run(capability: Capability | PlanResponse, options: RunOptions = {}): Promise<Run> {
        const session = this.#session === undefined ? {} : { session: this.#session };
        return this.#registry.run(capability, { ...session, ...options });
    }

    /** Does the same, under the name in the text of A2S. */
    executeCapabilityTasks<C extends Capability | PlanResponse>(
        capability: C,
        ...options: OptionsArgument<C, RunOptions>
    ): Promise<Run<OutputOf<C>>> {
        return this.run(capability, ...options);
    }
}

function given<T extends object>(members: { [K in keyof T]: T[K] | undefined }): T {
    return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T;
}
