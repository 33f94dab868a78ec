/** Capabilities of A2S as tools of the Vercel AI SDK. */
import type { A2SRegistry, RequestOptions, Values } from "@a2s/core";
import { type A2STool, keyOf, Toolbox, type ToolboxOptions } from "@a2s/core/tools";
import { dynamicTool, jsonSchema, type ModelMessage, type Tool, toolSearch } from "ai";

/** Tools by name, as `generateText` takes them. */
export type A2SToolSet = Record<string, Tool<unknown, unknown>>;

/** Makes tools for `generateText`, `streamText` and `ToolLoopAgent`. */
export class A2STools {
    readonly #toolbox: Toolbox;
    readonly #made = new Map<string, A2STool>();

    constructor(registry: A2SRegistry, options: ToolboxOptions = {}) {
        this.#toolbox = new Toolbox(registry, options);
    }

    /**
     * Returns a typed tool for each `NAME@VERSION#CHECKSUM`, whose document is verified here. With
     * `deferLoading` the model sees a tool only after {@link toolSearch} has found it.
     */
    async tools(
        options: RequestOptions & { pinned: readonly string[]; deferLoading?: boolean },
    ): Promise<A2SToolSet> {
        const tools = await this.#toolbox.pinned(options.pinned, options);
        return this.#convert(tools, options.deferLoading ?? false);
    }

    /** Returns the three tools with which a model searches, plans and runs. */
    toolset(): A2SToolSet {
        return this.#convert(this.#toolbox.searchTools(), false);
    }

    /** Returns the tool search of the AI SDK, which finds deferred tools with the search of A2S. */
    toolSearch(options: { maxResults?: number } = {}): ReturnType<typeof toolSearch> {
        return toolSearch({
            ...options,
            search: ({ query, tools }) =>
                this.#toolbox.rank(
                    query,
                    tools.map(({ name }) => name),
                ),
        });
    }

    /**
     * Says which calls need the approval of a person: those for which the guardian wants one. Give it to
     * `generateText` as `toolApproval`.
     */
    readonly toolApproval = async ({
        toolCall,
    }: {
        toolCall: { toolName: string; input: unknown };
    }): Promise<"user-approval" | undefined> => {
        const tool = this.#made.get(toolCall.toolName);
        return (await tool?.needsApproval(toolCall.input as Values)) ? "user-approval" : undefined;
    };

    #convert(tools: readonly A2STool[], deferLoading: boolean): A2SToolSet {
        return Object.fromEntries(
            tools.map((tool) => {
                this.#made.set(tool.name, tool);
                const converted = dynamicTool({
                    description: tool.description,
                    inputSchema: jsonSchema<unknown>(tool.schema as Parameters<typeof jsonSchema>[0]),
                    deferLoading,
                    execute: async (args, { toolCallId, messages, abortSignal }) =>
                        tool.call(args as Values, {
                            approved: isApproved(toolCallId, messages),
                            signal: abortSignal,
                            // The messages name the conversation, as the call is a part of it.
                            key: await keyOf(messages, toolCallId, tool.name, args),
                        }),
                });
                return [tool.name, converted];
            }),
        );
    }
}

/** Returns whether a person has approved a call, which stands in the messages. */
function isApproved(toolCallId: string, messages: readonly ModelMessage[]): boolean {
    const approvals = new Set<string>();
    for (const { content } of messages) {
        for (const part of typeof content === "string" ? [] : content) {
            if (part.type === "tool-approval-request" && part.toolCallId === toolCallId) {
                approvals.add(part.approvalId);
            }
            if (part.type === "tool-approval-response" && part.approved && approvals.has(part.approvalId)) {
                return true;
            }
        }
    }
    return false;
}
