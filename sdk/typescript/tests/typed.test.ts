/** The compiler knows the inputs and the outputs of the constants that `a2s types` writes. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { promisify } from "node:util";
import { ROOT } from "./support.js";
import { SKIP, startWorld, writeTypes } from "./world.js";

const BASE = join(ROOT, "sdk/typescript");
const SOURCES = join(BASE, "build/typed-source");

const run = promisify(execFile);

const HEAD = `import { A2SRegistry, CapabilityExecutor } from "@a2s/core";
import { type Capabilities, GetCountry, ListDogBreeds } from "./capabilities.js";

declare module "@a2s/core" {
    interface TypedCapabilities extends Capabilities {}
}

const registry = new A2SRegistry();
const executor = new CapabilityExecutor(registry);
const plan = await registry.plan(GetCountry, { inputs: { country_code: "FR" }, preview: true });
const dogs = await registry.run(ListDogBreeds);
`;

const GOOD = `
import type { Plan, Reference } from "@a2s/core";

const breed: string | undefined = dogs.output.breeds[0]?.attributes?.name;
console.log("typed:", breed, plan.steps.length);
const begun = await registry.run(ListDogBreeds, { wait: false });
console.log("waited:", (await begun.wait()).output.breeds.length);
const planned = await (await registry.plan(ListDogBreeds)).run();
console.log("planned:", planned.output.breeds.length);
console.log("executed:", (await executor.run(ListDogBreeds)).output.breeds.length);
console.log("verified:", (await registry.verifyChecksum(GetCountry)).name);

// What is not typed takes any inputs, and gives an unknown output.
const general: Plan = plan;
const [hit] = await registry.searchCapabilities("list dog breeds");
export const untyped = async (): Promise<unknown[]> => [
    general,
    hit && (await registry.run(hit)).output,
    (await registry.run("GetCountry", { inputs: { anything: 1 } })).output,
    await registry.run(GetCountry as Reference, { session: "breakfast" }),
    await registry.run(JSON.parse("{}")),
];
`;

/** Each of these does not compile. */
const MISUSES = [
    "registry.run(GetCountry, { inputs: { country_code: true } });",
    'registry.run(GetCountry, { inputs: { country: "FR" } });',
    'registry.run(GetCountry, { inputs: { country_code: "FR", continent: "EU" } });',
    "registry.run(GetCountry, { inputs: {} });",
    "registry.run(GetCountry, {});",
    "registry.run(GetCountry);",
    "registry.run(ListDogBreeds, { inputs: { limit: 1 } });",
    'registry.run(ListDogBreeds, { wait: "yes" });',
    "registry.plan(GetCountry, { inputs: { country_code: [] } });",
    'registry.trigger({ type: "email", id: "1" }, GetCountry);',
    "executor.run(GetCountry, { inputs: {} });",
    "dogs.output.cats;",
    "dogs.output.breeds[0]?.attributes?.size;",
    "export const id: number | undefined = dogs.output.breeds[0]?.id;",
    "(await plan.run()).output.capitol;",
    "(await registry.run(plan)).output.capitol;",
];

/** Compiles a program, and returns the messages of the compiler. */
async function compile(name: string, text: string): Promise<string> {
    writeFileSync(join(SOURCES, `${name}.ts`), text);
    const config = {
        extends: "../../tests/tsconfig.json",
        compilerOptions: { rootDir: ".", outDir: "." },
        files: [`${name}.ts`],
        include: [],
    };
    writeFileSync(join(SOURCES, `${name}.json`), JSON.stringify(config));
    const tsc = join(BASE, "node_modules/typescript/bin/tsc");
    const child = run(process.execPath, [tsc, "-p", join(SOURCES, `${name}.json`)]);
    return child.then(() => "").catch(({ stdout }) => stdout);
}

test("the constants of `a2s types`", { skip: SKIP }, async (context) => {
    const world = await startWorld(context);
    rmSync(SOURCES, { recursive: true, force: true });
    mkdirSync(SOURCES, { recursive: true });
    await writeTypes(world, join(SOURCES, "capabilities.ts"));

    await context.test("are typed in a program that uses them well, which runs", async () => {
        assert.equal(await compile("good", HEAD + GOOD), "");
        const env = { ...process.env, A2S_URL: world.url, A2S_DATA_DIR: world.data, A2S_TOKEN: "" };
        const { stdout } = await run(process.execPath, [join(SOURCES, "good.js")], { env });
        const lines = [
            "typed: Akita 1",
            "waited: 1",
            "planned: 1",
            "executed: 1",
            "verified: GetCountry",
            "",
        ];
        assert.deepEqual(stdout.split("\n"), lines);
    });

    await context.test("make the compiler refuse each misuse", async () => {
        const first = HEAD.split("\n").length;
        const messages = await compile("misused", `${HEAD}${MISUSES.join("\n")}\n`);
        const lines = [...messages.matchAll(/^\S*misused\.ts\((\d+),/gm)].map(([, line]) => Number(line));
        const expected = MISUSES.map((_, index) => first + index);
        assert.deepEqual([...new Set(lines)], expected, messages);
    });
});
