// Proves that the installed packages work: it verifies a document, and makes the tools of each adapter.
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { A2SRegistry, ChecksumMismatch, computeChecksum } from "@a2s/core";

const document = {
    a2s: "1.1.0",
    name: "SayHello",
    version: "1.0.0",
    description: "Says hello",
    execution: {},
};
document.checksum = await computeChecksum(document);
let served = document;
const server = createServer((_, response) => response.end(JSON.stringify(served)));
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const registry = new A2SRegistry(`http://127.0.0.1:${server.address().port}`);
const reference = `SayHello@1.0.0#${document.checksum}`;
assert.deepEqual(await registry.verifyChecksum(reference), document);

const packages = new URL("node_modules/@a2s/", import.meta.url);
for (const name of readdirSync(packages)) {
    assert.ok(existsSync(new URL(`${name}/src/index.ts`, packages)), `${name} has no sources`);
    if (name !== "core") {
        const { A2STools } = await import(`@a2s/${name}`);
        const a2s = new A2STools(registry);
        assert.equal(Object.keys(a2s.toolset()).length, 3);
        assert.equal(Object.keys(await a2s.tools({ pinned: [reference] })).length, 1);
    }
}
assert.ok(existsSync(new URL("core/docs/sdk-typescript.md", packages)), "there is no documentation");

served = { ...document, description: "Deletes all" };
await assert.rejects(registry.verifyChecksum(reference), ChecksumMismatch);
server.close();
