/** Plans and runs: the objects of the API, with what can be done with them. */
import {
    A2SError,
    asError,
    errorOfRun,
    Interrupted,
    InvalidInput,
    MissingInput,
    NeedsApproval,
} from "./errors.js";
import type { A2SRegistry, EventOptions, RunOptions } from "./registry.js";
import type { RequestOptions } from "./transport.js";
import type {
    Event,
    ExecutionRequest,
    PlanResponse,
    Run as RunRecord,
    StepResolution,
    Values,
} from "./types.js";

/** Options of waiting. */
export type WaitOptions = RequestOptions;

/** Options of the decision about a step. */
export interface ResumeOptions extends RequestOptions {
    /** The path of the step, where several wait. */
    step?: string;
    /** The outputs of the step, with the decision `set`. */
    outputs?: Values;
}

/** The fate of a run whose caller does not wait for it any more: it is cancelled, or goes on. */
export type OnAbort = "cancel" | "detach";

/** What a run and a plan need of their registry. */
export interface RunHost {
    registry: A2SRegistry;
    pause: (length: "pause" | "approvalPause", signal: AbortSignal | undefined) => Promise<void>;
    /** Reads a run that is waited for: a restart of A2S is no reason to give up. */
    read: (id: string, options: RequestOptions) => Promise<RunRecord>;
    /** Gives the events of a run that is waited for. */
    follow: (id: string, after: number, options: RequestOptions) => AsyncGenerator<Event, void, void>;
}

export interface Run<Output = unknown> extends RunRecord {
    /** The result of a run that succeeded. Before that it is undefined. */
    output: Output;
}

/** One execution of a capability: the object of the API, with methods. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the constructor assigns the members of the API
// biome-ignore lint/correctness/noUnusedVariables: the other half of the declaration uses it
export class Run<Output = unknown> {
    readonly #host: RunHost;

    /** Runs come from a registry. */
    constructor(host: RunHost, record: RunRecord) {
        this.#host = host;
        Object.assign(this, record);
    }

    /** Reads the run again, and returns it. */
    async refresh(options: RequestOptions = {}): Promise<this> {
        return this.#replace(await this.#host.registry.getRun(this.id, options));
    }

    /** Gives all events of the run as they happen, until it has ended or waits. */
    events(options: EventOptions = {}): AsyncGenerator<Event, void, void> {
        return this.#host.registry.events(this.id, options);
    }

    /**
     * Waits until the run has ended, and returns it. A run at rest sends nothing. If the wait is aborted, the run
     * goes on.
     *
     * @throws the error of a run that did not succeed, or that waits for a person; Interrupted
     */
    async wait(options: WaitOptions = {}): Promise<this> {
        return this.own("detach", options, () => this.#wait(options));
    }

    /**
     * Waits until a person has decided about the approvals of the run and it has ended, and returns it.
     *
     * @throws the error of a run that did not succeed, or that waits for a further approval; Interrupted
     */
    async waitForDecision(options: WaitOptions = {}): Promise<this> {
        return this.own("detach", options, () => this.#waitForDecision(options));
    }

    /**
     * Does work that waits for the run. If the signal is aborted, the run is cancelled, or goes on.
     *
     * @throws Interrupted with the run, or the error of the work
     */
    async own<T>(onAbort: OnAbort, { signal }: WaitOptions, work: () => Promise<T>): Promise<T> {
        try {
            signal?.throwIfAborted();
            return await work();
        } catch (error) {
            if (!signal?.aborted || (error instanceof Interrupted && onAbort === "detach")) {
                throw error instanceof A2SError ? error.of(this) : error;
            }
            if (onAbort === "cancel") {
                // The run may have ended; and A2S may be away, then the error has the id of the run.
                await this.cancel().catch(() => undefined);
            }
            const end = onAbort === "cancel" ? "and is cancelled" : "and goes on";
            throw new Interrupted(`the run ${this.id} was not waited for, ${end}`, {
                run: this,
                cause: asError(signal.reason),
                hint: "Read the run later by its id.",
            });
        }
    }

    async #wait(options: WaitOptions): Promise<this> {
        let after = 0;
        while (!this.#isAtRest()) {
            for await (const event of this.#host.follow(this.id, after, options)) {
                after = event.seq;
            }
            await this.#read(options);
            if (!this.#isAtRest()) {
                await this.#host.pause("pause", options.signal);
            }
        }
        if (this.status !== "succeeded") {
            throw errorOfRun(this);
        }
        return this;
    }

    async #waitForDecision(options: WaitOptions): Promise<this> {
        const known = new Set(this.approvals?.map(({ id }) => id));
        for (;;) {
            await this.#read(options);
            if (this.status !== "waiting") {
                return this.#wait(options);
            }
            const error = errorOfRun(this);
            if (!(error instanceof NeedsApproval) || error.approvals.some(({ id }) => !known.has(id))) {
                throw error;
            }
            await this.#host.pause("approvalPause", options.signal);
        }
    }

    async #read(options: RequestOptions): Promise<void> {
        this.#replace(await this.#host.read(this.id, options));
    }

    /** Cancels the run, and returns it. It ends when its requests have ended. */
    async cancel(options: RequestOptions = {}): Promise<this> {
        return this.#replace(await this.#host.registry.cancelRun(this.id, options));
    }

    /** Continues the run with the decision of a person about a request whose effect is not known. */
    async resume(decision: StepResolution, options: ResumeOptions = {}): Promise<this> {
        return this.#replace(await this.#host.registry.resumeRun(this.id, decision, options));
    }

    #isAtRest(): boolean {
        return this.status !== "queued" && this.status !== "running";
    }

    #replace(record: RunRecord): this {
        for (const name of Object.keys(this) as (keyof RunRecord)[]) {
            delete this[name];
        }
        return Object.assign(this, record);
    }
}

// biome-ignore lint/correctness/noUnusedVariables: the other half of the declaration uses it
export interface Plan<Output = unknown> extends PlanResponse {}

/** The plan of a run: the object of the API, with the method that starts it. */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: the constructor assigns the members of the API
export class Plan<Output = unknown> {
    readonly #host: RunHost;

    /** Plans come from a registry. */
    constructor(host: RunHost, record: PlanResponse) {
        this.#host = host;
        Object.assign(this, record);
    }

    /** Runs exactly this plan, which is possible once. See `A2SRegistry.run`. */
    async run(options: RunOptions = {}): Promise<Run<Output>> {
        const run = await this.#host.registry.run(this as PlanResponse, options);
        return run as Run<Output>;
    }
}

/** Returns whether a value is a plan, rather than a capability. */
export function isPlan(value: unknown): value is PlanResponse {
    return typeof value === "object" && value !== null && "steps" in value && "capability" in value;
}

/**
 * Returns the request that starts a plan.
 *
 * @throws MissingInput, or another A2SError if the plan cannot be started
 */
export function startPlan(plan: PlanResponse): ExecutionRequest {
    if (plan.token) {
        return { plan: plan.token };
    }
    const hint = plan.no_token_reason ?? undefined;
    if (plan.missing.length > 0) {
        const names = plan.missing.map((name) => `\`${name}\``).join(", ");
        throw new MissingInput(`\`${plan.capability.name}\` needs values for ${names}`, {
            code: "A2S320",
            hint,
            missing: plan.missing.map((name) => ({ name, required: true })),
        });
    }
    throw new InvalidInput("the plan cannot be started", { hint });
}
