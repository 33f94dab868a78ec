/** The configuration of each client of A2S, for the address of this server. No token is ever in it. Pure. */

/** A text to copy, with the place where it belongs. */
export interface ConfigurationBlock {
    title: string;
    text: string;
}

/** One client, and the steps that connect it. */
export interface ClientConfiguration {
    name: string;
    title: string;
    /** The result of these steps. */
    purpose: string;
    /** The path of the configuration file, by system. */
    files: { system: string; path: string }[];
    blocks: ConfigurationBlock[];
    /** Facts that the blocks do not show. */
    notes: string[];
    /** A command that makes the token for it. Absent when it needs none. */
    token?: string;
    /** The page of the documentation, in the repository. */
    page: string;
}

/** Clients of one kind. */
export interface ClientGroup {
    title: string;
    clients: ClientConfiguration[];
}

/** The address that the commands use without `--url`. */
const DEFAULT_ORIGIN = "http://127.0.0.1:8740";

/** A server, as a client reaches it. */
interface Server {
    origin: string;
    /** True when the client may run on the same machine only. */
    isLocal: boolean;
    /** ` --url ORIGIN`, unless that is the default. */
    flag: string;
}

function serverOf(origin: string): Server {
    const url = new URL(origin);
    const isLocal = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/.test(url.hostname);
    return { origin: url.origin, isLocal, flag: url.origin === DEFAULT_ORIGIN ? "" : ` --url ${url.origin}` };
}

/** Returns the clients whose configuration is known, for a server. */
export function clientGroups(origin: string): ClientGroup[] {
    const server = serverOf(origin);
    return [
        {
            title: "MCP clients",
            clients: [...MCP_CLIENTS.map((client) => mcpClient(client, server)), anyMcpClient(server)],
        },
        { title: "Programs", clients: [python(server), typescript(server), go(server), curl(server)] },
        { title: "Agents", clients: [a2a(server)] },
    ];
}

/** Returns a client by its name, or the first one. */
export function findClient(groups: readonly ClientGroup[], name: string): ClientConfiguration | undefined {
    const clients = groups.flatMap((group) => group.clients);
    return clients.find((client) => client.name === name) ?? clients[0];
}

/** A client of which `a2s connect` knows the configuration file. */
interface McpClient {
    name: string;
    title: string;
    /** The member of the file that has one member for each server. */
    section: string;
    format?: "toml" | "typed";
    files: ClientConfiguration["files"];
    after: string;
}

const ALL_SYSTEMS = "Linux, macOS, Windows";

const MCP_CLIENTS: McpClient[] = [
    {
        name: "claude",
        title: "Claude Desktop",
        section: "mcpServers",
        files: [
            { system: "macOS", path: "~/Library/Application Support/Claude/claude_desktop_config.json" },
            { system: "Windows", path: "%APPDATA%\\Claude\\claude_desktop_config.json" },
            { system: "Linux", path: "~/.config/Claude/claude_desktop_config.json" },
        ],
        after: "Claude Desktop opens this file with Settings, Developer, Edit Config. Start it again after the change.",
    },
    {
        name: "claude-code",
        title: "Claude Code",
        section: "mcpServers",
        files: [{ system: ALL_SYSTEMS, path: ".mcp.json in the folder of the project" }],
        after: "Start Claude Code in this folder. It asks once whether you trust the file.",
    },
    {
        name: "cursor",
        title: "Cursor",
        section: "mcpServers",
        files: [{ system: ALL_SYSTEMS, path: "~/.cursor/mcp.json" }],
        after: "Start Cursor again after the change.",
    },
    {
        name: "vscode",
        title: "VS Code",
        section: "servers",
        format: "typed",
        files: [
            { system: "macOS", path: "~/Library/Application Support/Code/User/mcp.json" },
            { system: "Windows", path: "%APPDATA%\\Code\\User\\mcp.json" },
            { system: "Linux", path: "~/.config/Code/User/mcp.json" },
        ],
        after: "VS Code opens this file with the command MCP: Open User Configuration. For one workspace: .vscode/mcp.json.",
    },
    {
        name: "codex",
        title: "Codex",
        section: "mcp_servers",
        format: "toml",
        files: [{ system: ALL_SYSTEMS, path: "~/.codex/config.toml, or config.toml in CODEX_HOME" }],
        after: "Start Codex again after the change.",
    },
    {
        name: "zed",
        title: "Zed",
        section: "context_servers",
        files: [
            { system: "Linux, macOS", path: "~/.config/zed/settings.json" },
            { system: "Windows", path: "%APPDATA%\\Zed\\settings.json" },
        ],
        after: "Zed reads the file again when it changes.",
    },
    {
        name: "windsurf",
        title: "Windsurf",
        section: "mcpServers",
        files: [{ system: ALL_SYSTEMS, path: "~/.codeium/windsurf/mcp_config.json" }],
        after: "Start Windsurf again after the change.",
    },
];

const MCP_PAGE = "docs/agents.md";

function mcpClient(
    { name, title, section, format, files, after }: McpClient,
    server: Server,
): ClientConfiguration {
    const notes = [after];
    if (server.isLocal) {
        notes.push(
            "The entry starts `a2s mcp`, which finds the owner's token in the data folder. The file contains no token.",
            "If the server has another data folder, add `--data-dir FOLDER` to the arguments.",
        );
    } else {
        notes.push(
            "The client passes the variable A2S_TOKEN of its own environment to `a2s mcp`. Set it before you start the client.",
        );
    }
    if (isPlain(server)) {
        notes.push(
            "This server has no HTTPS. Commands send tokens to it only with `--allow-insecure-tokens`.",
        );
    }
    return {
        name,
        title,
        purpose: `${title} finds and runs capabilities as tools.`,
        files,
        blocks: [
            { title: "On the machine of the client", text: `a2s connect ${name}${server.flag}` },
            { title: "Entry", text: mcpEntry(section, format, server) },
        ],
        notes,
        ...(server.isLocal ? {} : { token: tokenCommand(name, server) }),
        page: MCP_PAGE,
    };
}

function isPlain(server: Server): boolean {
    return !server.isLocal && server.origin.startsWith("http:");
}

function mcpEntry(section: string, format: McpClient["format"], server: Server): string {
    const flags = server.flag === "" ? [] : ["--url", server.origin];
    const args = ["mcp", ...flags, ...(isPlain(server) ? ["--allow-insecure-tokens"] : [])];
    const list = `[${args.map((argument) => JSON.stringify(argument)).join(", ")}]`;
    if (format === "toml") {
        return `[${section}.a2s]\ncommand = "a2s"\nargs = ${list}\n`;
    }
    const type = format === "typed" ? `"type": "stdio", ` : "";
    return `{\n  "${section}": {\n    "a2s": { ${type}"command": "a2s", "args": ${list} }\n  }\n}\n`;
}

function tokenCommand(name: string, server: Server, scopes = ["execute"]): string {
    const flags = scopes.map((scope) => ` --scope ${scope}`).join("");
    return `a2s tokens create ${name}${flags} --expires 90d${server.flag}`;
}

function anyMcpClient(server: Server): ClientConfiguration {
    return {
        name: "mcp",
        title: "Another MCP client",
        purpose:
            "A client that speaks MCP over streamable HTTP connects to this server without a program between them.",
        files: [],
        blocks: [
            { title: "Address", text: `${server.origin}/mcp` },
            { title: "Header", text: "Authorization: Bearer TOKEN" },
            { title: "A client that starts a program", text: `a2s mcp${server.flag}` },
        ],
        notes: ["Replace TOKEN by a token with the scope `execute`."],
        token: tokenCommand("my-client", server),
        page: MCP_PAGE,
    };
}

function environment(server: Server): ConfigurationBlock {
    const lines = server.origin === DEFAULT_ORIGIN ? [] : [`export A2S_URL=${server.origin}`];
    lines.push("export A2S_TOKEN=TOKEN");
    return { title: "Environment of the program", text: `${lines.join("\n")}\n` };
}

function sdk(
    language: { name: string; title: string; install: string; file: string; program: string; page: string },
    server: Server,
): ClientConfiguration {
    const { name, title, install, file, program, page } = language;
    return {
        name,
        title,
        purpose: "A program searches and runs capabilities. The SDK computes each checksum itself.",
        files: [],
        blocks: [
            { title: "In a clone of the repository", text: install },
            environment(server),
            { title: file, text: program },
        ],
        notes: [
            "Replace TOKEN by a token.",
            ...(server.isLocal
                ? [
                      "On the machine of the server, the SDK finds the owner's token in the data folder without A2S_TOKEN.",
                  ]
                : []),
        ],
        token: tokenCommand(`my-${name}-program`, server),
        page,
    };
}

const python = (server: Server) =>
    sdk(
        {
            name: "python",
            title: "Python",
            install: "pip install ./sdk/python\n",
            file: "agent.py",
            program: PYTHON,
            page: "docs/sdk-python.md",
        },
        server,
    );

const typescript = (server: Server) =>
    sdk(
        {
            name: "typescript",
            title: "TypeScript",
            install: "sdk/typescript/pack /tmp/a2s\nnpm install /tmp/a2s/a2s-core-0.1.0.tgz\n",
            file: "agent.mts",
            program: TYPESCRIPT,
            page: "docs/sdk-typescript.md",
        },
        server,
    );

const go = (server: Server) =>
    sdk(
        {
            name: "go",
            title: "Go",
            install:
                'go mod edit -require=github.com/a2s/core@v0.0.0 -replace=github.com/a2s/core="$A2S_SOURCE/sdk/go"\n',
            file: "main.go",
            program: GO,
            page: "docs/sdk-go.md",
        },
        server,
    );

function curl(server: Server): ClientConfiguration {
    const { origin } = server;
    return {
        name: "curl",
        title: "curl",
        purpose: "Every command and every SDK is a client of the same HTTP API.",
        files: [],
        blocks: [
            {
                title: "a2s.curl, readable by you alone: other users can see the arguments of a command",
                text: 'header = "Authorization: Bearer TOKEN"\n',
            },
            {
                title: "Search",
                text: `curl -sS -K a2s.curl ${origin}/v1/search --json '{"intent": "list dog breeds"}'\n`,
            },
            {
                title: "Run, and wait for the end",
                text: `curl -sS -K a2s.curl ${origin}/v1/executions --json '{"name": "ListDogBreeds", "wait": true}'\n`,
            },
        ],
        notes: ["Replace TOKEN by a token with the scope `execute`."],
        token: tokenCommand("curl", server),
        page: "docs/http.md",
    };
}

function a2a(server: Server): ClientConfiguration {
    return {
        name: "a2a",
        title: "A2A",
        purpose: "An agent that speaks the Agent2Agent protocol asks the agent of this server.",
        files: [],
        blocks: [
            { title: "Agent card", text: `${server.origin}/.well-known/agent-card.json` },
            { title: "JSON-RPC, versions 0.3 and 1.0", text: `${server.origin}/a2a` },
            { title: "Header", text: "Authorization: Bearer TOKEN" },
        ],
        notes: [
            "Replace TOKEN by a token with the scope `execute`.",
            "Behind a proxy, `a2s up --agent-url ADDRESS` sets the address on the card.",
        ],
        token: tokenCommand("other-agent", server),
        page: "docs/a2a.md",
    };
}

// The three programs are those of the README; a test compares them.

const PYTHON = `from a2s import A2SAgent, A2SRegistry

registry = A2SRegistry()
agent = A2SAgent().use_registries([registry])
response = agent.handle_request(
    "list dog breeds",
    on_question=lambda question: input(f"{question['fields']}: "),
    on_consent=lambda question: input(f"Run {question['actions']}? ") == "yes",
)
print(response["message"])
`;

const TYPESCRIPT = `import { createInterface } from "node:readline/promises";
import { A2SAgent, A2SRegistry } from "@a2s/core";

const terminal = createInterface(process.stdin, process.stdout);
const registry = new A2SRegistry();
const agent = new A2SAgent().useRegistries([registry]);
const response = await agent.handleRequest("list dog breeds", {
    onQuestion: ({ fields }) => terminal.question(\`\${fields.map(({ name }) => name)}? \`),
    onConsent: async ({ actions }) => (await terminal.question(\`Run \${JSON.stringify(actions)}? \`)) === "yes",
});
console.log(response.message);
terminal.close();
`;

const GO = `package main

import (
	"context"
	"fmt"
	"log"

	a2s "github.com/a2s/core"
)

func main() {
	agent := a2s.NewAgent()
	agent.UseRegistries(a2s.NewRegistry(""))
	response, err := agent.HandleRequest(context.Background(), "list dog breeds", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(response.Status)
}
`;
