/** The types of capabilities that `a2s types` has written, in the signatures of the SDK. */
import type { Plan } from "./run.js";
import type { Values } from "./types.js";

/**
 * The types of capabilities, by name. A program adds those that `a2s types --lang ts` has written. Then the
 * compiler knows the inputs and the outputs of the constants of that file:
 *
 * ```ts
 * declare module "@a2s/core" {
 *     interface TypedCapabilities extends Capabilities {}
 * }
 * ```
 */
// biome-ignore lint/suspicious/noEmptyInterface: programs add members
export interface TypedCapabilities {}

/**
 * The types of the capability that a reference pins, or never if the program has not added them. A reference
 * of the type `any` pins none.
 */
type TypesOf<C> = 0 extends 1 & C
    ? never
    : {
          [Name in keyof TypedCapabilities]: TypedCapabilities[Name] extends { reference: infer Reference }
              ? C extends Reference
                  ? TypedCapabilities[Name]
                  : never
              : never;
      }[keyof TypedCapabilities];

/** The inputs of a capability, which are any values if the compiler does not know them. */
export type InputsOf<C> = [TypesOf<C>] extends [never]
    ? Values
    : TypesOf<C> extends { inputs: infer Inputs }
      ? // An interface without members would accept any value.
        [keyof Inputs] extends [never]
          ? Record<string, never>
          : Inputs
      : Values;

/** The output of a capability or a plan, which is unknown if the compiler does not know it. */
export type OutputOf<C> =
    C extends Plan<infer Output>
        ? Output
        : [TypesOf<C>] extends [never]
          ? unknown
          : TypesOf<C> extends { outputs: infer Outputs }
            ? Outputs
            : unknown;

/** Options with the inputs of a capability. They may be absent if each of them may. */
export type OptionsFor<C, Options> = Omit<Options, "inputs"> &
    (Record<never, never> extends InputsOf<C> ? { inputs?: InputsOf<C> } : { inputs: InputsOf<C> });

/** The last argument of a call with a capability. It may be absent if the inputs may. */
export type OptionsArgument<C, Options> =
    Record<never, never> extends OptionsFor<C, Options>
        ? [options?: OptionsFor<C, Options>]
        : [options: OptionsFor<C, Options>];
