import assert from "node:assert/strict";
import test from "node:test";
import { A2STools } from "@a2s/openai-agents";
import { Agent, Runner, setTracingDisabled } from "@openai/agents";
import { assistantMessage, functionCall, ScriptedModel } from "@openai/agents/testing";
import { startFake } from "../../../tests/fake.js";
import type { Json } from "../../../tests/support.js";

setTracingDisabled(true);

/** A model that makes these calls, one in each turn, and then says "Done.". */
function modelThatCalls(...calls: [name: string, input: Json][]): ScriptedModel {
    const steps = calls.map(([name, input], index) => [functionCall(name, input, { callId: `c${index}` })]);
    return new ScriptedModel([...steps, [assistantMessage("Done.")]]);
}

/** Returns the results that the model has read. */
function outputs(model: ScriptedModel): Json[] {
    const input = model.lastCall?.request.input as Json[];
    return input
        .filter(({ type }) => type === "function_call_result")
        .map(({ output }) => JSON.parse(typeof output === "string" ? output : output.text));
}

test("pinned capabilities", async (context) => {
    const fake = await startFake(context);
    const tools = await new A2STools(fake.registry).tools({ pinned: [fake.weather] });
    const model = modelThatCalls(["ReadWeather", { city: "Rome" }], ["ReadWeather", { city: "Nowhere" }]);
    const agent = new Agent({ name: "weather", model, tools });
    const { finalOutput } = await new Runner().run(agent, "weather?");
    assert.equal(finalOutput, "Done.");
    assert.deepEqual(outputs(model)[0], { weather: "Sunny" });
    assert.equal(outputs(model)[1].code, "A2S324");
    const { parameters } = model.firstCall?.request.tools[0] as Json;
    assert.deepEqual(parameters.required, ["city"]);
    assert.equal(parameters.properties.key, undefined);
});

test("a model that searches, plans and runs", async (context) => {
    const fake = await startFake(context);
    const model = modelThatCalls(
        ["search_capabilities", { intent: "the weather" }],
        ["plan_capability", { capability: "ReadWeather@1.0.0" }],
        ["run_capability", { capability: "ReadWeather@1.0.0", inputs: { city: "Rome" } }],
    );
    const agent = new Agent({ name: "finder", model, tools: new A2STools(fake.registry).toolset() });
    await new Runner().run(agent, "weather?");
    assert.deepEqual(outputs(model)[2], { weather: "Sunny" });
    assert.equal(fake.runs().length, 1);
});

test("the search of A2S behind the tool search of the Responses API", async (context) => {
    const fake = await startFake(context);
    const search = {
        type: "tool_search_call",
        execution: "client",
        callId: "s1",
        arguments: { intent: "weather" },
    };
    const model = new ScriptedModel([
        [search as Json],
        [functionCall("ReadWeather", { city: "Rome" }, { callId: "c1" })],
        [assistantMessage("Done.")],
    ]);
    const agent = new Agent({ name: "finder", model, tools: [new A2STools(fake.registry).toolSearch()] });
    await new Runner().run(agent, "weather?");
    assert.deepEqual(outputs(model), [{ weather: "Sunny" }]);
    const found = (model.lastCall?.request.input as Json[]).find(({ type }) => type === "tool_search_output");
    assert.deepEqual(
        found.tools.map(({ name }: Json) => name),
        ["ReadWeather"],
    );
});

for (const [title, withApprover, isApproved] of [
    ["an approval of the agent is the one that the guardian wants", true, true],
    ["without an approver the run waits at A2S", false, true],
    ["a rejection starts no run", true, false],
] as const) {
    test(title, async (context) => {
        const fake = await startFake(context);
        const options = withApprover ? { approver: fake.registry } : {};
        const tools = await new A2STools(fake.registry, options).tools({
            pinned: [fake.tweet, fake.weather],
        });
        const model = modelThatCalls(["PostTweet", { text: "hello" }]);
        const agent = new Agent({ name: "poster", model, tools });
        const paused = await new Runner().run(agent, "tweet hello");
        assert.equal(paused.interruptions.length, 1);
        assert.equal(fake.runs().length, 0);
        for (const interruption of paused.interruptions) {
            isApproved ? paused.state.approve(interruption) : paused.state.reject(interruption);
        }
        await new Runner().run(agent, paused.state);
        if (!isApproved) {
            assert.equal(fake.runs().length, 0);
        } else if (withApprover) {
            assert.deepEqual(outputs(model), [{ posted: true }]);
        } else {
            assert.equal(outputs(model)[0].error, "NeedsApproval");
        }
        assert.equal(fake.decisions().length, withApprover && isApproved ? 1 : 0);
    });
}
