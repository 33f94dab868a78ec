/** Capabilities of A2S as tools of the OpenAI Agents SDK. */
import type { A2SRegistry, RequestOptions, Values } from "@a2s/core";
import { type A2STool, keyOf, Toolbox, type ToolboxOptions } from "@a2s/core/tools";
import {
    type FunctionTool,
    type HostedTool,
    type ToolInputParameters,
    tool,
    toolSearchTool,
} from "@openai/agents";

// biome-ignore lint/suspicious/noExplicitAny: the tools fit into an agent with any context
type AgentTool = FunctionTool<any, any, any>;

type NonStrictSchema = Extract<ToolInputParameters, { additionalProperties: true }>;

/** Makes tools for an `Agent`. A call for which the guardian wants an approval interrupts the agent. */
export class A2STools {
    readonly #toolbox: Toolbox;

    constructor(registry: A2SRegistry, options: ToolboxOptions = {}) {
        this.#toolbox = new Toolbox(registry, options);
    }

    /** Returns a typed tool for each `NAME@VERSION#CHECKSUM`, whose document is verified here. */
    async tools(options: RequestOptions & { pinned: readonly string[] }): Promise<AgentTool[]> {
        return (await this.#toolbox.pinned(options.pinned, options)).map((one) => convert(one, false));
    }

    /** Returns the three tools with which a model searches, plans and runs. */
    toolset(): AgentTool[] {
        return this.#toolbox.searchTools().map((one) => convert(one, false));
    }

    /**
     * Returns the tool search of the Responses API, carried out here: it searches A2S, and loads a typed tool
     * for each capability that fits.
     */
    toolSearch(): HostedTool {
        return toolSearchTool({
            execution: "client",
            description: "Finds tools that do a task. Describe one task in plain words.",
            parameters: {
                type: "object",
                properties: { intent: { type: "string", description: "The task, in plain words." } },
                required: ["intent"],
                additionalProperties: false,
            },
            execute: async ({ toolCall }) => {
                const { intent } = toolCall.arguments as { intent?: unknown };
                const found = await this.#toolbox.find(String(intent));
                return found.map((one) => convert(one, true));
            },
        });
    }
}

function convert(one: A2STool, deferLoading: boolean): AgentTool {
    const { name, description, schema } = one;
    return tool({
        name,
        description,
        // The type of the library allows further members, which A2S refuses.
        parameters: schema as unknown as NonStrictSchema,
        // Inputs may be optional, which the strict mode does not know.
        strict: false,
        deferLoading,
        needsApproval: (_, args) => one.needsApproval(valuesOf(args)),
        execute: async (args, context, details) => {
            const callId = details?.toolCall?.callId;
            const approved =
                callId !== undefined && context?.isToolApproved({ toolName: name, callId }) === true;
            const key = callId && (await keyOf(details?.toolCall, valuesOf(args)));
            const result = await one.call(valuesOf(args), { approved, signal: details?.signal, key });
            return typeof result === "string" ? result : JSON.stringify(result);
        },
    });
}

/** Returns the arguments of a call, which come as text in some places. */
function valuesOf(args: unknown): Values {
    return (typeof args === "string" ? JSON.parse(args) : args) as Values;
}
