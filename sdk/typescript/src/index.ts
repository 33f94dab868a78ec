/** Finds, verifies and runs capabilities of A2S. */
export { A2SAgent, CapabilityExecutor, type HandleOptions, type Reply, StateStore } from "./agent.js";
export { type CapabilityDocument, computeChecksum, type Reference } from "./checksum.js";
export {
    A2SError,
    Busy,
    ChecksumMismatch,
    Conflict,
    Denied,
    Drifted,
    type ErrorDetails,
    Interrupted,
    InvalidDocument,
    InvalidInput,
    MissingInput,
    NeedsApproval,
    NotFound,
    NotReachable,
    OutcomeUnknown,
    RunFailed,
    Unauthorized,
} from "./errors.js";
export { canonicalize, type JsonValue, parseJson } from "./json.js";
export {
    A2SRegistry,
    type Capability,
    type DecisionOptions,
    type EventOptions,
    type GuardianRecordFilter,
    type PageOptions,
    type PlanOptions,
    type RunOptions,
    type SearchOptions,
    type StateOptions,
} from "./registry.js";
export { type OnAbort, Plan, type ResumeOptions, Run, type WaitOptions } from "./run.js";
export { SearchResult } from "./search.js";
export type { RegistryOptions, RetryOptions } from "./settings.js";
export type { RequestOptions } from "./transport.js";
export type { InputsOf, OptionsArgument, OptionsFor, OutputOf, TypedCapabilities } from "./typed.js";
export type * from "./types.js";
export type { Run as RunRecord } from "./types.js";
