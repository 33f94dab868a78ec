/** The SDK against the real program. */
import assert from "node:assert/strict";
import test from "node:test";
import {
    A2SAgent,
    CapabilityExecutor,
    Conflict,
    computeChecksum,
    Denied,
    InvalidDocument,
    MissingInput,
    NeedsApproval,
    RunFailed,
    StateStore,
} from "@a2s/core";
import { Toolbox } from "@a2s/core/tools";
import { collect, type Json } from "./support.js";
import { SKIP, startWorld } from "./world.js";

/** Returns the error of a call. */
async function errorOf<T>(call: Promise<unknown>, type: new (...args: never[]) => T): Promise<T> {
    const error = await call.then(
        () => undefined,
        (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof type, String(error));
    return error;
}

test("the real program", { skip: SKIP }, async (context) => {
    const { registry } = await startWorld(context);

    await context.test("one checksum from the search to the run", async () => {
        const [hit] = await registry.searchCapabilities("which kinds of dogs are there", { limit: 1 });
        assert.ok(hit);
        const document = await registry.verifyChecksum(hit);
        const plan = await registry.plan(hit, { preview: true });
        const run = await plan.run({ intent: "which kinds of dogs are there" });
        assert.deepEqual(run.output, { breeds: [{ id: "1", attributes: { name: "Akita" } }] });
        const checksums = [hit.checksum, document.checksum, plan.capability.checksum, run.checksum];
        assert.equal(new Set(checksums).size, 1);
        assert.equal((await collect(run.events())).at(-1)?.type, "run_finished");
        assert.equal((await errorOf(plan.run(), Conflict)).code, "A2S377");
    });

    await context.test("every shipped document has its checksum", async () => {
        const changes = await collect(registry.listChanges());
        assert.equal(changes.length, 42);
        for (const change of changes) {
            const document = await registry.verifyChecksum(change);
            assert.equal(await computeChecksum(document), change.checksum);
        }
    });

    await context.test("a run is followed while it runs", async () => {
        const run = await registry.run("ListDogBreeds", { wait: false });
        const events = await collect(run.events());
        assert.deepEqual(
            events.map(({ seq }) => seq),
            events.map((_, index) => index + 1),
        );
        assert.equal((await run.wait()).status, "succeeded");
        assert.equal((await collect(registry.listRuns({ name: "ListDogBreeds", limit: 1 }))).length, 2);
    });

    await context.test("an approval and a rejection", async () => {
        const first = await errorOf(
            registry.run("GetCountry", { inputs: { country_code: "FR" } }),
            NeedsApproval,
        );
        const [approval] = await registry.listApprovals({ status: "pending" });
        assert.equal(approval?.id, first.approvals[0]?.id);
        await registry.approve(approval?.id as string, { decidedBy: "ann", reason: "France is fine." });
        await first.run?.resume("repeat");
        assert.equal(((await first.wait()).output as Json).capital, "Paris");

        const second = await errorOf(
            registry.run("GetCountry", { inputs: { country_code: "DE" } }),
            NeedsApproval,
        );
        await registry.reject(second.approvals[0]?.id as string);
        await second.run?.resume("repeat");
        await assert.rejects(second.wait(), Denied);
    });

    await context.test("a tool that a person approves", async () => {
        const document = await registry.getCapability("GetCountry");
        const pin = `GetCountry@${document.version}#${document.checksum}`;
        const [tool] = await new Toolbox(registry, { approver: registry }).pinned([pin]);
        const inputs = { country_code: "IT" };
        assert.equal(await tool?.needsApproval(inputs), true);
        assert.equal(((await tool?.call(inputs, { approved: true })) as Json).capital, "Paris");
    });

    await context.test("remembered values are inputs", async () => {
        const store = new StateStore(registry, "session-1");
        await store.set("country_code", "FR");
        assert.equal(await store.get("country_code"), "FR");
        const executor = new CapabilityExecutor(registry, store);
        const waiting = await errorOf(executor.executeCapabilityTasks("GetCountry"), NeedsApproval);
        await waiting.run?.cancel();
        await assert.rejects(
            registry.getRun(waiting.run?.id as string).then((run) => run.wait()),
            RunFailed,
        );
        await store.delete("country_code");
        const missing = await errorOf(executor.run("GetCountry"), MissingInput);
        assert.equal(missing.missing[0]?.name, "country_code");
    });

    await context.test("publishing and changes", async () => {
        const document = await registry.getCapability("ListDogBreeds");
        const changed = { ...document, version: "1.1.0", description: "Lists the breeds of dogs" };
        const error = await errorOf(registry.publish(changed), InvalidDocument);
        const checksum = await computeChecksum(changed);
        assert.match(error.diagnostics[0]?.message ?? "", new RegExp(checksum));
        assert.equal((await registry.publish({ ...changed, checksum })).created, true);
        await registry.yank("ListDogBreeds", "1.1.0");
        const actions: string[] = [];
        for await (const { action } of registry.followChanges(42)) {
            actions.push(action);
            if (actions.length === 2) {
                break;
            }
        }
        assert.deepEqual(actions, ["publish", "yank"]);
    });

    await context.test("the agent", async () => {
        const types: string[] = [];
        const agent = new A2SAgent().useRegistries([registry]);
        const { status } = await agent.handleRequest("list dog breeds", {
            onEvent: ({ type }) => types.push(type),
        });
        assert.equal(status, "completed");
        assert.equal(types[0], "heard");
        assert.equal(types.at(-1), "response");
    });
});
