/** The errors of this SDK: classes that a program can act on. */
import { ERROR_CLASSES } from "./error-classes.js";
import type { ResumeOptions, Run, WaitOptions } from "./run.js";
import type {
    Diagnostic,
    FaultAttribution,
    InputField,
    NextAction,
    Problem,
    RunApproval,
    StepResolution,
} from "./types.js";

/** What an error has besides its message. */
export interface ErrorDetails {
    code?: string | undefined;
    cause?: FaultAttribution | Error | undefined;
    next?: NextAction | undefined;
    hint?: string | undefined;
    status?: number | undefined;
    run?: Run | undefined;
    problem?: Problem | undefined;
    retryAfter?: number | undefined;
}

/** The base of all errors of A2S. */
export class A2SError extends Error {
    /** The stable code, such as `A2S378`. `a2s explain CODE` explains it. Absent if A2S sent none. */
    readonly code: string | undefined;
    /** The responsible party, if the error is the end of a run; or the error behind this one. */
    override readonly cause: FaultAttribution | Error | undefined;
    /** The kind of the next action, if the error is the end of a run. */
    readonly next: NextAction | undefined;
    /** The next action, for people. */
    readonly hint: string | undefined;
    /** The status of the response of A2S; at the end of a run, that of the service. */
    readonly status: number | undefined;
    /** The run, if the error is its end. */
    run: Run | undefined;
    /** The body of the response, if A2S described the error. */
    readonly problem: Problem | undefined;

    constructor(message: string, details: ErrorDetails = {}) {
        super(message);
        this.code = details.code;
        this.cause = details.cause;
        this.next = details.next;
        this.hint = details.hint;
        this.status = details.status;
        this.run = details.run;
        this.problem = details.problem;
    }

    /** Names the run that the error is about, unless it has one. */
    of(run: Run): this {
        this.run ??= run;
        return this;
    }
}

/** The guardian, or a person, said no. */
export class Denied extends A2SError {}

/** A run waits for the approval of a person. */
export class NeedsApproval extends A2SError {
    /** The approvals that the run waits for. */
    readonly approvals: RunApproval[];

    constructor(message: string, details: ErrorDetails = {}) {
        super(message, details);
        this.approvals = details.run?.approvals ?? [];
    }

    /**
     * Waits until a person has decided about these approvals and the run has ended. Returns the run, or throws the
     * error of its end; that is a `NeedsApproval` when the run waits for a further approval.
     */
    async wait(options: WaitOptions = {}): Promise<Run> {
        return runOf(this).waitForDecision(options);
    }
}

/**
 * The caller has stopped waiting for a run: its time is over, or it has aborted the call. `run` is the run, which
 * is cancelled or goes on, as `onAbort` says; `cause` is the reason of the signal.
 */
export class Interrupted extends A2SError {}

/** An input is missing. */
export class MissingInput extends A2SError {
    /** The missing inputs, with their schemas. */
    readonly missing: InputField[];

    constructor(message: string, details: ErrorDetails & { missing?: InputField[] } = {}) {
        super(message, details);
        this.missing = details.missing ?? listOf(details.problem?.missing);
    }
}

/** A value is not accepted. */
export class InvalidInput extends A2SError {}

/** A run would differ from its plan, or a version has other content than before. */
export class Drifted extends A2SError {
    /** The differences, in words. */
    readonly differences: string[];

    constructor(message: string, details: ErrorDetails & { differences?: string[] } = {}) {
        super(message, details);
        this.differences = details.differences ?? listOf(details.problem?.differences);
    }
}

/** A document does not have the expected checksum. */
export class ChecksumMismatch extends Drifted {
    /** The checksum of the hit, of the reference, or the one that the document states. */
    readonly expected: string;
    /** The checksum that was computed on this side. */
    readonly computed: string;

    constructor(name: string, expected: string, computed: string) {
        super(`\`${name}\` has the checksum ${computed}, and ${expected} was expected`, {
            hint: "Do not run it: the document is not the one that was published or found.",
        });
        this.expected = expected;
        this.computed = computed;
    }
}

/** A run waits because the effect of a request is not known. */
export class OutcomeUnknown extends A2SError {
    /** Continues the run with the decision of a person who has asked the service. */
    async resume(decision: StepResolution, options: ResumeOptions = {}): Promise<Run> {
        return runOf(this).resume(decision, options);
    }
}

/** A2S, or a service, does not answer. */
export class NotReachable extends A2SError {}

/** A document has errors. */
export class InvalidDocument extends A2SError {
    /** All errors, each with its path, line and column. */
    readonly diagnostics: Diagnostic[];

    constructor(message: string, details: ErrorDetails = {}) {
        super(message, details);
        this.diagnostics = listOf(details.problem?.diagnostics);
    }
}

/** The token is missing or unknown, or lacks a scope. */
export class Unauthorized extends A2SError {}

/** The object does not exist, or belongs to another principal. */
export class NotFound extends A2SError {}

/** The request does not fit the present state. */
export class Conflict extends A2SError {}

/** A limit is reached, and still was at the last try. */
export class Busy extends A2SError {
    /** How long A2S wants the caller to wait, in seconds. */
    readonly retryAfter: number | undefined;

    constructor(message: string, details: ErrorDetails = {}) {
        super(message, details);
        this.retryAfter = details.retryAfter;
    }
}

/** A run failed in a way that no other class names, or was cancelled. */
export class RunFailed extends A2SError {}

const CLASSES = {
    A2SError,
    Denied,
    NeedsApproval,
    MissingInput,
    InvalidInput,
    Drifted,
    ChecksumMismatch,
    Interrupted,
    OutcomeUnknown,
    NotReachable,
    InvalidDocument,
    Unauthorized,
    NotFound,
    Conflict,
    Busy,
    RunFailed,
};

// A minifier changes the names of classes, so that `constructor.name` would not do.
for (const [name, errorClass] of Object.entries(CLASSES)) {
    errorClass.prototype.name = name;
}

type ClassName = Exclude<keyof typeof CLASSES, "ChecksumMismatch" | "Interrupted">;

/** Returns the error of the class that the code has in the table, or else of another class. */
function makeError(otherwise: ClassName, message: string, details: ErrorDetails): A2SError {
    const table: Record<string, ClassName> = ERROR_CLASSES;
    const { code } = details;
    const name = code !== undefined && Object.hasOwn(table, code) ? table[code] : undefined;
    return new CLASSES[name ?? otherwise](message, details);
}

/** Returns the error of a response. `body` is what was read from it, if that was JSON. */
export function errorOfResponse(status: number, body: unknown, retryAfter?: number): A2SError {
    if (!isProblem(body)) {
        // Browsers hide the status of a redirect.
        const isRedirect = status === 0 || (status >= 300 && status < 400);
        const message = isRedirect
            ? "the response is a redirect, which is not followed"
            : `the response has the status ${status}`;
        return makeError(classOfStatus(status, false), message, { status, retryAfter });
    }
    return makeError(classOfStatus(status, body.diagnostics !== undefined), body.detail, {
        code: body.code,
        hint: body.hint ?? undefined,
        status,
        problem: body,
        retryAfter,
    });
}

function classOfStatus(status: number, hasDiagnostics: boolean): ClassName {
    switch (status) {
        case 401:
        case 403:
            return "Unauthorized";
        case 404:
        case 410:
            return "NotFound";
        case 409:
            return "Conflict";
        case 429:
        case 503:
            return "Busy";
        case 502:
        case 504:
            return "NotReachable";
        case 400:
        case 413:
        case 415:
        case 422:
            return hasDiagnostics ? "InvalidDocument" : "InvalidInput";
        default:
            return "A2SError";
    }
}

function isProblem(body: unknown): body is Problem {
    return (
        typeof body === "object" &&
        body !== null &&
        "code" in body &&
        typeof body.code === "string" &&
        "detail" in body &&
        typeof body.detail === "string"
    );
}

/** Returns the error of a run that is at rest and did not succeed. */
export function errorOfRun(run: Run): A2SError {
    const { error } = run;
    return makeError(
        run.status === "denied" ? "Denied" : "RunFailed",
        error?.message ?? `the run has the status ${run.status}`,
        {
            code: error?.code,
            cause: error?.cause ?? undefined,
            next: error?.next ?? undefined,
            hint: error?.hint,
            status: error?.status ?? undefined,
            run,
        },
    );
}

/** Returns the text of whatever was thrown. */
export function messageOf(error: unknown): string {
    return error instanceof Error ? error.message : String(error);
}

/** Returns whatever was thrown as an error. */
export function asError(error: unknown): Error {
    return error instanceof Error ? error : new Error(String(error));
}

function runOf(error: A2SError): Run {
    if (error.run === undefined) {
        throw error;
    }
    return error.run;
}

// The server may send anything.
function listOf<T>(value: T[] | null | undefined): T[] {
    return Array.isArray(value) ? value : [];
}
