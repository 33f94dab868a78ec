import assert from "node:assert/strict";
import test from "node:test";
import { A2STools } from "@a2s/langchain";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import { fakeModel } from "@langchain/core/testing";
import { Command, MemorySaver } from "@langchain/langgraph";
import { createAgent } from "langchain";
import { startFake } from "../../../tests/fake.js";
import type { Json } from "../../../tests/support.js";

/** A model that makes these calls, one in each turn, and then says "Done.". */
function modelThatCalls(...calls: [name: string, args: Json][]): ReturnType<typeof fakeModel> {
    const model = fakeModel();
    for (const [index, [name, args]] of calls.entries()) {
        model.respondWithTools([{ name, args, id: `c${index}` }]);
    }
    return model.respond(new AIMessage("Done."));
}

function outputs({ messages }: { messages: BaseMessage[] }): Json[] {
    return messages.filter((message) => message.getType() === "tool").map(({ text }) => JSON.parse(text));
}

const ask = (text: string): Json => ({ messages: [{ role: "user", content: text }] });

test("pinned capabilities", async (context) => {
    const fake = await startFake(context);
    const tools = await new A2STools(fake.registry).tools({ pinned: [fake.weather] });
    const model = modelThatCalls(["ReadWeather", { city: "Rome" }], ["ReadWeather", { city: "Nowhere" }]);
    const result = await createAgent({ model, tools }).invoke(ask("weather?"));
    assert.equal(result.messages.at(-1)?.text, "Done.");
    assert.deepEqual(outputs(result)[0], { weather: "Sunny" });
    assert.equal(outputs(result)[1].code, "A2S324");
    const schema = tools[0]?.schema as Json;
    assert.deepEqual(schema.required, ["city"]);
    assert.equal(schema.properties.key, undefined);
});

test("a model that searches, plans and runs", async (context) => {
    const fake = await startFake(context);
    const model = modelThatCalls(
        ["search_capabilities", { intent: "the weather" }],
        ["plan_capability", { capability: "ReadWeather@1.0.0" }],
        ["run_capability", { capability: "ReadWeather@1.0.0", inputs: { city: "Rome" } }],
    );
    const tools = new A2STools(fake.registry).toolset();
    const result = await createAgent({ model, tools }).invoke(ask("weather?"));
    assert.deepEqual(outputs(result)[2], { weather: "Sunny" });
    assert.equal(fake.runs().length, 1);
});

test("the search of A2S selects the tools", async (context) => {
    const fake = await startFake(context);
    const a2s = new A2STools(fake.registry);
    const tools = await a2s.tools({ pinned: [fake.weather, fake.tweet] });
    const seen: string[][] = [];
    const model = modelThatCalls(["ReadWeather", { city: "Rome" }]);
    const bindTools = model.bindTools.bind(model);
    model.bindTools = (bound) => {
        seen.push(bound.map((tool) => (tool as { name: string }).name));
        return bindTools(bound);
    };
    const agent = createAgent({ model, tools, middleware: [a2s.toolSelector()] });
    const result = await agent.invoke(ask("what is the weather?"));
    assert.deepEqual(outputs(result), [{ weather: "Sunny" }]);
    assert.deepEqual(seen, [["ReadWeather"], ["ReadWeather"]]);
});

for (const [title, withApprover, isApproved] of [
    ["an approval of LangChain is the one that the guardian wants", true, true],
    ["without an approver the run waits at A2S", false, true],
    ["a rejection starts no run", true, false],
] as const) {
    test(title, async (context) => {
        const fake = await startFake(context);
        const a2s = new A2STools(fake.registry, withApprover ? { approver: fake.registry } : {});
        const tools = await a2s.tools({ pinned: [fake.weather, fake.tweet] });
        const model = modelThatCalls(["ReadWeather", { city: "Rome" }], ["PostTweet", { text: "hello" }]);
        const middleware = [a2s.humanInTheLoop()];
        const agent = createAgent({ model, tools, middleware, checkpointer: new MemorySaver() });
        const config = { configurable: { thread_id: "t" } };
        const paused = (await agent.invoke(ask("tweet hello"), config)) as Json;
        assert.equal(paused.__interrupt__.length, 1);
        assert.equal(fake.runs().length, 1);
        const decisions = [{ type: isApproved ? "approve" : "reject" }];
        const result = (await agent.invoke(new Command({ resume: { decisions } }) as Json, config)) as Json;
        if (!isApproved) {
            assert.equal(fake.runs().length, 1);
        } else if (withApprover) {
            assert.deepEqual(outputs(result)[1], { posted: true });
        } else {
            assert.equal(outputs(result)[1].error, "NeedsApproval");
        }
        assert.equal(fake.decisions().length, withApprover && isApproved ? 1 : 0);
    });
}

test("nothing is approved where no person was asked", async (context) => {
    const fake = await startFake(context);
    const tools = await new A2STools(fake.registry, { approver: fake.registry }).tools({
        pinned: [fake.tweet],
    });
    const model = modelThatCalls(["PostTweet", { text: "hello" }]);
    const result = await createAgent({ model, tools }).invoke(ask("tweet hello"));
    assert.equal(outputs(result)[0].error, "NeedsApproval");
    assert.deepEqual(fake.decisions(), []);
});
