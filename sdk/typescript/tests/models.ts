/** Language models for the examples of the documentation. Each lists dog breeds, and then says "Done.". */
import { AIMessage } from "@langchain/core/messages";
import { fakeModel } from "@langchain/core/testing";
import { assistantMessage, functionCall, ScriptedModel } from "@openai/agents/testing";
import { MockLanguageModelV4 } from "ai/test";
import type { Json } from "./support.js";

const TOOL = "ListDogBreeds";

/** The models by the adapter. */
export const models = {
    "ai-sdk": () =>
        new MockLanguageModelV4({
            doGenerate: async ({ prompt, tools }): Promise<Json> => {
                const hasTool = tools?.some(({ name }) => name === TOOL);
                const wasCalled = JSON.stringify(prompt).includes("Akita");
                const [toolName, input] = hasTool ? [TOOL, {}] : ["search", { query: "list dog breeds" }];
                const call = { type: "tool-call", toolCallId: "c", toolName, input: JSON.stringify(input) };
                return {
                    content: [wasCalled ? { type: "text", text: "Done." } : call],
                    finishReason: { unified: wasCalled ? "stop" : "tool-calls" },
                    usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } },
                    warnings: [],
                };
            },
        }),
    "openai-agents": () =>
        new ScriptedModel([[functionCall(TOOL, {}, { callId: "c" })], [assistantMessage("Done.")]]),
    langchain: () =>
        fakeModel()
            .respondWithTools([{ name: TOOL, args: {}, id: "c" }])
            .respond(new AIMessage("Done.")),
};
