/** Capabilities of A2S as tools of LangChain. */
import type { A2SRegistry, RequestOptions, Values } from "@a2s/core";
import { type A2STool, keyOf, Toolbox, type ToolboxOptions } from "@a2s/core/tools";
import { DynamicStructuredTool } from "@langchain/core/tools";
import { type AgentMiddleware, createMiddleware, humanInTheLoopMiddleware } from "langchain";

/** Makes tools and middleware for `createAgent`. */
export class A2STools {
    readonly #toolbox: Toolbox;
    readonly #made = new Map<string, A2STool>();
    /** The calls about which a person is asked: the middleware lets one pass only after an approval. */
    readonly #asked = new Set<string>();

    constructor(registry: A2SRegistry, options: ToolboxOptions = {}) {
        this.#toolbox = new Toolbox(registry, options);
    }

    /** Returns a typed tool for each `NAME@VERSION#CHECKSUM`, whose document is verified here. */
    async tools(options: RequestOptions & { pinned: readonly string[] }): Promise<DynamicStructuredTool[]> {
        return (await this.#toolbox.pinned(options.pinned, options)).map((tool) => this.#convert(tool));
    }

    /** Returns the three tools with which a model searches, plans and runs. */
    toolset(): DynamicStructuredTool[] {
        return this.#toolbox.searchTools().map((tool) => this.#convert(tool));
    }

    /**
     * Returns a middleware that gives the model only those tools of A2S that fit the last message of the
     * person, by the search of A2S. It needs no call of a model. Other tools stay.
     */
    toolSelector(): AgentMiddleware {
        return createMiddleware({
            name: "A2SToolSelector",
            wrapModelCall: async (request, handler) => {
                const query = request.messages
                    .filter((message) => message.getType() === "human")
                    .at(-1)?.text;
                if (!query) {
                    return handler(request);
                }
                const found = await this.#toolbox.rank(query, [...this.#made.keys()]);
                const tools = request.tools.filter(({ name }) => {
                    return typeof name !== "string" || !this.#made.has(name) || found.includes(name);
                });
                return handler({ ...request, tools });
            },
        });
    }

    /**
     * Returns the human-in-the-loop middleware for the tools that were made so far. It asks a person about
     * the calls for which the guardian wants an approval.
     */
    humanInTheLoop(): AgentMiddleware {
        const interruptOn = Object.fromEntries(
            [...this.#made.values()].map((tool) => [
                tool.name,
                {
                    allowedDecisions: ["approve" as const, "reject" as const],
                    when: async ({ toolCall }: { toolCall: { id?: string; args: Values } }) => {
                        const isNeeded = await tool.needsApproval(toolCall.args);
                        if (isNeeded && toolCall.id !== undefined) {
                            this.#asked.add(toolCall.id);
                        }
                        return isNeeded;
                    },
                },
            ]),
        );
        // The type of the options is that of another version of Zod, and resolves to never.
        return humanInTheLoopMiddleware({ interruptOn } as never) as AgentMiddleware;
    }

    #convert(tool: A2STool): DynamicStructuredTool {
        this.#made.set(tool.name, tool);
        const { name, description, schema } = tool;
        return new DynamicStructuredTool({
            name,
            description,
            schema,
            func: async (args, _, config) => {
                const id = (config as { toolCall?: { id?: string } } | undefined)?.toolCall?.id;
                const approved = id !== undefined && this.#asked.delete(id);
                const thread = config?.configurable?.["thread_id"];
                const key = id === undefined ? undefined : await keyOf(thread ?? null, id, name, args);
                const result = await tool.call(args as Values, { approved, signal: config?.signal, key });
                return typeof result === "string" ? result : JSON.stringify(result);
            },
        });
    }
}
