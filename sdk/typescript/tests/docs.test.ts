/** Every block of TypeScript in the README and in the guide is compiled, and runs against the real program. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { promisify } from "node:util";
import { ROOT } from "./support.js";
import { SKIP, startWorld, writeTypes } from "./world.js";

const BASE = join(ROOT, "sdk/typescript");
const SOURCES = join(BASE, "build/docs-source");
const OUTPUT = join(BASE, "build/docs-output");
const BLOCK = /^```ts(?: model=(\S+))?\n(.*?)^```$/gms;
const PAGES = {
    readme: { path: "sdk/typescript/README.md", blocks: 2, output: ["ListDogBreeds is done.", "Akita"] },
    guide: {
        path: "docs/sdk-typescript.md",
        blocks: 22,
        output: ["ListDogBreeds 1.0.0", "true", "succeeded", "run_finished", "Paris", "A2S320", "Done."],
    },
};

const run = promisify(execFile);

/** Returns the program of a page: its imports, and then its blocks in one scope for each model. */
function programOf(text: string): { program: string; blocks: number } {
    const found = [...text.matchAll(BLOCK)];
    const imports = ['import { models } from "../../tests/models.js";'];
    let model: string | undefined;
    const lines: string[] = [];
    for (const [, next, code = ""] of found) {
        if (next !== model) {
            lines.push(model === undefined ? "" : "}");
            lines.push(next === undefined ? "" : `{ const model = models["${next as "ai-sdk"}"]();`);
            model = next;
        }
        for (const line of code.split("\n")) {
            (line.startsWith("import ") ? imports : lines).push(line);
        }
    }
    lines.push(model === undefined ? "" : "}", "void models;");
    return { program: [...imports, ...lines].join("\n"), blocks: found.length };
}

test("the examples of the documentation", { skip: SKIP }, async (context) => {
    rmSync(SOURCES, { recursive: true, force: true });
    rmSync(OUTPUT, { recursive: true, force: true });
    mkdirSync(SOURCES, { recursive: true });
    await writeTypes(await startWorld(context), join(SOURCES, "capabilities.ts"));
    for (const [name, { path, blocks }] of Object.entries(PAGES)) {
        const text = readFileSync(join(ROOT, path), "utf8");
        const page = programOf(text);
        assert.equal(page.blocks, blocks, `${path} has other blocks than expected`);
        assert.equal(text.match(/^```ts/gm)?.length, blocks);
        writeFileSync(join(SOURCES, `${name}.ts`), page.program);
    }
    const config = {
        extends: "../../tests/tsconfig.json",
        compilerOptions: { rootDir: "../..", outDir: OUTPUT },
        include: ["."],
    };
    writeFileSync(join(SOURCES, "tsconfig.json"), JSON.stringify(config));
    await run(process.execPath, [join(BASE, "node_modules/typescript/bin/tsc"), "-p", SOURCES]).catch(
        ({ stdout }) => assert.fail(stdout),
    );

    for (const [name, { output }] of Object.entries(PAGES)) {
        await context.test(name, async (page) => {
            const { url, data } = await startWorld(page);
            const env = { ...process.env, A2S_URL: url, A2S_DATA_DIR: data, A2S_TOKEN: "" };
            const program = join(OUTPUT, "build/docs-source", `${name}.js`);
            const child = run(process.execPath, [program], { env });
            child.child.stdin?.end();
            const { stdout } = await child;
            for (const text of output) {
                assert.ok(stdout.includes(text), `${text} is not in:\n${stdout}`);
            }
        });
    }
});
