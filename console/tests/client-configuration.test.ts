import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { type ClientConfiguration, clientGroups, findClient } from "../src/model/client-configuration";

const root = new URL("../../", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");

function clientAt(origin: string, name: string): ClientConfiguration {
    const client = findClient(clientGroups(origin), name);
    if (client?.name !== name) {
        throw new Error(`there is no client ${name}`);
    }
    return client;
}

const textsOf = (client: ClientConfiguration) => client.blocks.map(({ text }) => text);
const LOCAL = "http://127.0.0.1:8740";
const REMOTE = "https://a2s.example.com";

test("each client of `a2s connect` is there, with its section", () => {
    const kinds = /pub\(crate\) enum McpClientKind \{([^}]*)\}/.exec(read("src/cli/connect.rs"))?.[1] ?? "";
    const names = [...kinds.matchAll(/^ {4}([A-Z][A-Za-z]*),/gm)].map(([, name = ""]) =>
        name.replace(/(?<=[a-z])[A-Z]/g, (letter) => `-${letter}`).toLowerCase(),
    );
    expect(names).toHaveLength(7);
    const command = read("src/commands/connect.rs");
    for (const name of names) {
        const [connect, entry] = textsOf(clientAt(LOCAL, name));
        expect(connect).toBe(`a2s connect ${name}`);
        const section = entry?.startsWith("[")
            ? entry.slice(1, entry.indexOf("."))
            : Object.keys(JSON.parse(entry ?? ""))[0];
        expect(command).toContain(`"${section}"`);
    }
});

test("an entry has the format of its client", () => {
    expect(JSON.parse(textsOf(clientAt(LOCAL, "vscode"))[1] ?? "")).toEqual({
        servers: { a2s: { type: "stdio", command: "a2s", args: ["mcp"] } },
    });
    expect(JSON.parse(textsOf(clientAt("http://127.0.0.1:9", "claude"))[1] ?? "")).toEqual({
        mcpServers: { a2s: { command: "a2s", args: ["mcp", "--url", "http://127.0.0.1:9"] } },
    });
    expect(textsOf(clientAt(REMOTE, "codex"))[1]).toBe(
        '[mcp_servers.a2s]\ncommand = "a2s"\nargs = ["mcp", "--url", "https://a2s.example.com"]\n',
    );
});

test("a server elsewhere needs a token, and one without HTTPS a flag", () => {
    expect(clientAt(LOCAL, "cursor").token).toBeUndefined();
    expect(clientAt(REMOTE, "cursor").token).toBe(
        "a2s tokens create cursor --scope execute --expires 90d --url https://a2s.example.com",
    );
    expect(textsOf(clientAt(REMOTE, "cursor"))[1]).not.toContain("insecure");
    expect(textsOf(clientAt("http://10.0.0.5:8740", "cursor"))[1]).toContain('"--allow-insecure-tokens"');
});

test("the programs are those of the README", () => {
    const readme = read("README.md");
    for (const [name, language] of [
        ["python", "python"],
        ["typescript", "ts"],
        ["go", "go"],
    ] as const) {
        const program = clientAt(REMOTE, name).blocks.at(-1)?.text;
        expect(readme).toContain(`\`\`\`${language}\n${program}\`\`\``);
        const [install = ""] = textsOf(clientAt(REMOTE, name));
        for (const line of install.trim().split("\n")) {
            expect(read(`sdk/${name}/README.md`)).toContain(line);
        }
    }
});

test("the pages of the documentation exist, and each address is that of the server", () => {
    for (const { clients } of clientGroups(REMOTE)) {
        for (const client of clients) {
            expect(read(client.page).length).toBeGreaterThan(0);
            expect(textsOf(client).join("\n")).toContain(REMOTE);
        }
    }
});

test("an unknown name shows the first client", () => {
    expect(findClient(clientGroups(LOCAL), "<x>")?.name).toBe("claude");
});
