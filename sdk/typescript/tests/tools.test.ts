import assert from "node:assert/strict";
import test from "node:test";
import { ChecksumMismatch, InvalidInput } from "@a2s/core";
import { type A2STool, keyOf, Toolbox } from "@a2s/core/tools";
import { startFake } from "./fake.js";
import type { Json } from "./support.js";

test("a pinned capability is a typed tool", async (context) => {
    const fake = await startFake(context);
    const [tool] = await new Toolbox(fake.registry).pinned([fake.weather]);
    assert.equal(tool?.name, "ReadWeather");
    assert.deepEqual(tool?.schema, {
        type: "object",
        properties: {
            city: { type: "string", description: "Name of the city" },
            days: { type: "integer", default: 3 },
        },
        required: ["city"],
        additionalProperties: false,
    });
    assert.deepEqual(await tool?.call({ city: "Rome" }), { weather: "Sunny" });
    const [, checksum] = fake.weather.split("#");
    assert.deepEqual(fake.runs(), [
        { name: "ReadWeather", version: "1.0.0", checksum, inputs: { city: "Rome" } },
    ]);
});

test("a pin needs a checksum, and the document must have it", async (context) => {
    const fake = await startFake(context);
    const toolbox = new Toolbox(fake.registry);
    await assert.rejects(toolbox.pinned(["ReadWeather@1.0.0"]), InvalidInput);
    await assert.rejects(toolbox.pinned([fake.weather, fake.weather]), InvalidInput);
    fake.documents["ReadWeather"] = { ...fake.documents["ReadWeather"], description: "Deletes all" } as Json;
    await assert.rejects(toolbox.pinned([fake.weather]), ChecksumMismatch);
    await assert.rejects(toolbox.find("weather"), ChecksumMismatch);
});

test("a model searches, plans and runs", async (context) => {
    const fake = await startFake(context);
    const [search, plan, run] = new Toolbox(fake.registry, { session: "s" }).searchTools() as [
        A2STool,
        A2STool,
        A2STool,
    ];
    const first = (await run.call({ capability: "ReadWeather@1.0.0" })) as Json;
    assert.match(first.hint, /search_capabilities/);
    const found = (await search.call({ intent: "the weather in Rome" })) as Json;
    assert.equal(found.capabilities[0].capability, "ReadWeather@1.0.0");
    const planned = (await plan.call({ capability: "ReadWeather@1.0.0" })) as Json;
    assert.equal(planned.steps.length, 1);
    const output = await run.call({ capability: "ReadWeather@1.0.0", inputs: { city: "Rome" } });
    assert.deepEqual(output, { weather: "Sunny" });
    assert.equal(fake.runs()[0].intent, "the weather in Rome");
    assert.equal(fake.runs()[0].session, "s");
    const nothing = (await search.call({ intent: "prove a theorem" })) as Json;
    assert.deepEqual(nothing, { capabilities: [], message: "nothing fits", nearest: ["PostTweet: Posts"] });
    fake.documents["ReadWeather"] = { ...fake.documents["ReadWeather"], description: "Deletes all" } as Json;
    const lie = (await run.call({ capability: "ReadWeather@1.0.0" })) as Json;
    assert.equal(lie.error, "ChecksumMismatch");
    assert.equal(fake.runs().length, 1);
});

test("an error is a result that a model can act on", async (context) => {
    const fake = await startFake(context);
    const [tool] = (await new Toolbox(fake.registry).pinned([fake.weather])) as [A2STool];
    assert.deepEqual(await tool.call({ city: "Nowhere" }), {
        error: "InvalidInput",
        code: "A2S324",
        message: "no such city",
        hint: "Name a city.",
    });
    const [search] = new Toolbox(fake.registry).searchTools() as [A2STool];
    assert.equal(((await search.call({ intent: 5 })) as Json).error, "InvalidInput");
});

test("a call that was cancelled throws", async (context) => {
    const fake = await startFake(context);
    const [tool] = (await new Toolbox(fake.registry).pinned([fake.weather])) as [A2STool];
    const reason = new Error("enough");
    await assert.rejects(tool.call({ city: "Rome" }, { signal: AbortSignal.abort(reason) }), reason);
});

test("an approval at the host is one of the guardian only with an approver", async (context) => {
    const fake = await startFake(context);
    const [weather, tweet] = (await new Toolbox(fake.registry).pinned([fake.weather, fake.tweet])) as [
        A2STool,
        A2STool,
    ];
    assert.equal(await weather.needsApproval({ city: "Rome" }), false);
    assert.equal(await tweet.needsApproval({ text: "hello" }), true);
    const waiting = (await tweet.call({ text: "hello" }, { approved: true })) as Json;
    assert.equal(waiting.error, "NeedsApproval");
    assert.equal(waiting.run, "run-PostTweet");
    assert.deepEqual(fake.decisions(), []);

    const options = { approver: fake.registry };
    const [withApprover] = (await new Toolbox(fake.registry, options).pinned([fake.tweet])) as [A2STool];
    assert.equal(((await withApprover.call({ text: "hello" })) as Json).error, "NeedsApproval");
    assert.deepEqual(fake.decisions(), []);
    assert.deepEqual(await withApprover.call({ text: "hello" }, { approved: true }), { posted: true });
    assert.deepEqual(fake.decisions(), ["/v1/approvals/a1/approve"]);

    const [always] = (await new Toolbox(fake.registry, { alwaysAsk: true }).pinned([fake.weather])) as [
        A2STool,
    ];
    assert.equal(await always.needsApproval({}), true);
});

test("two approvals of one run are two questions", async (context) => {
    const fake = await startFake(context);
    fake.needed = ["a1", "a2"];
    const asked: string[] = [];
    const ask = (_: unknown, { id }: { id: string }) => asked.push(id) > 0;
    const [tweet] = (await new Toolbox(fake.registry, { approver: fake.registry }).pinned([fake.tweet])) as [
        A2STool,
    ];
    // The yes of the host is for the first; the second is another question.
    assert.deepEqual(await tweet.call({ text: "hello" }, { approved: true, ask }), { posted: true });
    assert.deepEqual(asked, ["a2"]);
    assert.equal(fake.runs().length, 1);
});

test("a call with the same inputs goes on with the run that waits", async (context) => {
    const fake = await startFake(context);
    fake.needed = ["a1", "a2"];
    const [tweet] = (await new Toolbox(fake.registry, { approver: fake.registry }).pinned([fake.tweet])) as [
        A2STool,
    ];
    const waiting = (await tweet.call({ text: "hello" }, { approved: true, key: "1" })) as Json;
    assert.equal(waiting.approvals[0].id, "a2");
    assert.equal(await tweet.needsApproval({ text: "hello" }), true);
    assert.deepEqual(await tweet.call({ text: "hello" }, { approved: true, key: "2" }), { posted: true });
    assert.equal(fake.runs().length, 1);
});

test("a call that is stopped cancels its run", async (context) => {
    const fake = await startFake(context);
    const controller = new AbortController();
    const reason = new Error("enough");
    fake.followed = () => controller.abort(reason);
    const [weather] = (await new Toolbox(fake.registry).pinned([fake.weather])) as [A2STool];
    await assert.rejects(weather.call({ city: "Rome" }, { signal: controller.signal }), reason);
    assert.ok(fake.received.some(({ path }) => path === "/v1/executions/run-ReadWeather/cancel"));
});

test("the same key is the same run", async (context) => {
    const fake = await startFake(context);
    const [weather] = (await new Toolbox(fake.registry).pinned([fake.weather])) as [A2STool];
    const options = { key: await keyOf("conversation", "call") };
    assert.deepEqual(
        await weather.call({ city: "Rome" }, options),
        await weather.call({ city: "Rome" }, options),
    );
    assert.equal(fake.runs().length, 1);
});
