import assert from "node:assert/strict";
import test from "node:test";
import { A2STools } from "@a2s/ai-sdk";
import { generateText, isStepCount, type ModelMessage } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { type Fake, startFake } from "../../../tests/fake.js";
import type { Json } from "../../../tests/support.js";

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } } as Json;

/** A model that makes these calls, one in each step, and then says "Done.". */
function modelThatCalls(...calls: [name: string, input: Json][]): MockLanguageModelV4 {
    const steps: Json[] = calls.map(([toolName, input], index) => ({
        content: [{ type: "tool-call", toolCallId: `c${index}`, toolName, input: JSON.stringify(input) }],
        finishReason: { unified: "tool-calls" },
        usage,
        warnings: [],
    }));
    const end = {
        content: [{ type: "text", text: "Done." }],
        finishReason: { unified: "stop" },
        usage,
        warnings: [],
    };
    return new MockLanguageModelV4({ doGenerate: [...steps, end] });
}

const toolNames = (model: MockLanguageModelV4): Json[] =>
    model.doGenerateCalls.map(({ tools }) => tools?.map(({ name }) => name));

test("pinned capabilities", async (context) => {
    const fake = await startFake(context);
    const tools = await new A2STools(fake.registry).tools({ pinned: [fake.weather] });
    const model = modelThatCalls(["ReadWeather", { city: "Rome" }], ["ReadWeather", { city: "Nowhere" }]);
    const { steps, text } = await generateText({
        model,
        tools,
        prompt: "weather?",
        stopWhen: isStepCount(5),
    });
    const outputs = steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output as Json));
    assert.equal(text, "Done.");
    assert.deepEqual(outputs[0], { weather: "Sunny" });
    assert.equal(outputs[1].code, "A2S324");
    const { inputSchema } = model.doGenerateCalls[0]?.tools?.[0] as Json;
    assert.deepEqual(inputSchema.required, ["city"]);
    assert.equal(inputSchema.properties.key, undefined);
});

test("a model that searches, plans and runs", async (context) => {
    const fake = await startFake(context);
    const model = modelThatCalls(
        ["search_capabilities", { intent: "the weather" }],
        ["plan_capability", { capability: "ReadWeather@1.0.0" }],
        ["run_capability", { capability: "ReadWeather@1.0.0", inputs: { city: "Rome" } }],
    );
    const { steps } = await generateText({
        model,
        tools: new A2STools(fake.registry).toolset(),
        prompt: "weather?",
        stopWhen: isStepCount(5),
    });
    assert.deepEqual(steps[2]?.toolResults[0]?.output, { weather: "Sunny" });
    assert.equal(fake.runs().length, 1);
});

test("the search of A2S behind the tool search of the AI SDK", async (context) => {
    const fake = await startFake(context);
    const a2s = new A2STools(fake.registry);
    const deferred = await a2s.tools({ pinned: [fake.weather, fake.tweet], deferLoading: true });
    const model = modelThatCalls(["search", { query: "the weather" }], ["ReadWeather", { city: "Rome" }]);
    const { steps } = await generateText({
        model,
        tools: { search: a2s.toolSearch(), ...deferred },
        prompt: "weather?",
        stopWhen: isStepCount(5),
    });
    assert.deepEqual(toolNames(model), [["search"], ["search", "ReadWeather"], ["search", "ReadWeather"]]);
    assert.deepEqual(steps[1]?.toolResults[0]?.output, { weather: "Sunny" });
});

async function untilApproval(fake: Fake, a2s: A2STools): Promise<[ModelMessage[], string]> {
    const tools = await a2s.tools({ pinned: [fake.weather, fake.tweet] });
    const prompt: ModelMessage[] = [{ role: "user", content: "tweet hello" }];
    const { content, response } = await generateText({
        model: modelThatCalls(["PostTweet", { text: "hello" }]),
        tools,
        toolApproval: a2s.toolApproval,
        messages: prompt,
    });
    const request = content.find(({ type }) => type === "tool-approval-request") as Json;
    assert.equal(fake.runs().length, 0);
    return [[...prompt, ...response.messages], request.approvalId];
}

async function decide(fake: Fake, a2s: A2STools, approved: boolean): Promise<Json> {
    const [messages, approvalId] = await untilApproval(fake, a2s);
    const response = { type: "tool-approval-response" as const, approvalId, approved };
    const model = modelThatCalls();
    await generateText({
        model,
        tools: await a2s.tools({ pinned: [fake.weather, fake.tweet] }),
        toolApproval: a2s.toolApproval,
        messages: [...messages, { role: "tool", content: [response] }],
    });
    const last = model.doGenerateCalls[0]?.prompt.at(-1)?.content as Json;
    return last[0].output;
}

test("an approval of the AI SDK is the one that the guardian wants", async (context) => {
    const fake = await startFake(context);
    const output = await decide(fake, new A2STools(fake.registry, { approver: fake.registry }), true);
    assert.deepEqual(output.value, { posted: true });
    assert.deepEqual(fake.decisions(), ["/v1/approvals/a1/approve"]);
});

test("without an approver the run waits at A2S", async (context) => {
    const fake = await startFake(context);
    const output = await decide(fake, new A2STools(fake.registry), true);
    assert.equal(output.value.error, "NeedsApproval");
    assert.deepEqual(fake.decisions(), []);
});

test("a rejection starts no run", async (context) => {
    const fake = await startFake(context);
    const output = await decide(fake, new A2STools(fake.registry, { approver: fake.registry }), false);
    assert.equal(output.type, "execution-denied");
    assert.equal(fake.runs().length, 0);
});

test("nothing is approved where no person was asked", async (context) => {
    const fake = await startFake(context);
    const a2s = new A2STools(fake.registry, { approver: fake.registry });
    const tools = await a2s.tools({ pinned: [fake.tweet] });
    const refused = { approvalId: "a", toolCallId: "c0" };
    const { steps } = await generateText({
        model: modelThatCalls(["PostTweet", { text: "hello" }]),
        tools,
        // An earlier call with the same id was refused, which approves nothing.
        messages: [
            { role: "user", content: "tweet hello" },
            {
                role: "assistant",
                content: [
                    { type: "tool-call", toolCallId: "c0", toolName: "PostTweet", input: {} },
                    { type: "tool-approval-request", ...refused },
                ],
            },
            {
                role: "tool",
                content: [
                    { type: "tool-approval-response", approvalId: "a", approved: false },
                    {
                        type: "tool-result",
                        toolCallId: "c0",
                        toolName: "PostTweet",
                        output: { type: "execution-denied" },
                    },
                ],
            },
            { role: "user", content: "try again" },
        ],
    });
    const [result] = steps.flatMap(({ toolResults }) => toolResults.map(({ output }) => output as Json));
    assert.equal(result.error, "NeedsApproval");
    assert.deepEqual(fake.decisions(), []);
});
