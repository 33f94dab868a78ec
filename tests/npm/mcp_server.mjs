// MCP servers of the official TypeScript SDKs, for the tests of the executor.
// node mcp_server.mjs FOLDER: FOLDER has node_modules.
//   /modern     the SDK of 2026-07-28, which wants no session
//   /strict     the same, and no earlier revision
//   /stateful   the SDK before it: a session, and answers as streams of events
//   /stateless  the same without ids of sessions, and answers as JSON
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
// The new packages have no `require` for every part of them.
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { McpServer, createMcpHandler } = await load("@modelcontextprotocol/server");
const { toNodeHandler } = await load("@modelcontextprotocol/node");
const { McpServer: OldServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = await load(
  "@modelcontextprotocol/sdk/server/streamableHttp.js",
);
const { z } = await load("zod");

const notes = [];
const text = (text) => ({ content: [{ type: "text", text }] });

// `shape` makes the schema of an object as an SDK wants it.
function withTools(server, shape) {
  const day = z.object({ day: z.number().int(), high: z.number() });
  server.registerTool(
    "forecast",
    {
      description: "The weather of the next days",
      inputSchema: shape({ city: z.string(), days: z.number().int().max(9).optional() }),
      outputSchema: shape({ city: z.string(), days: z.array(day) }),
    },
    async ({ city, days = 2 }) => {
      const result = { city, days: [] };
      for (let n = 1; n <= days; n++) result.days.push({ day: n, high: 20 + n / 2 });
      return { ...text(JSON.stringify(result)), structuredContent: result };
    },
  );
  server.registerTool(
    "add_note",
    { description: "Keeps a note", inputSchema: shape({ text: z.string() }) },
    async ({ text: note }) => text(`note ${notes.push(note)}: ${note}`),
  );
  server.registerTool("list_notes", { inputSchema: shape({}) }, async () =>
    text(JSON.stringify(notes)),
  );
  server.registerTool("count_sessions", { inputSchema: shape({}) }, async () =>
    text(`${sessions.size} sessions`),
  );
  server.registerTool("fail", { inputSchema: shape({}) }, async () => {
    throw new Error("there is no weather today");
  });
  return server;
}

const make = () => withTools(new McpServer({ name: "weather", version: "1.0.0" }), z.object);
const makeOld = () => withTools(new OldServer({ name: "weather", version: "1.0.0" }), (s) => s);
const modern = toNodeHandler(createMcpHandler(make));
const strict = toNodeHandler(createMcpHandler(make, { legacy: "reject" }));

const sessions = new Map();
async function stateful(request, response, body) {
  const id = request.headers["mcp-session-id"];
  let transport = sessions.get(id);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => sessions.set(id, transport),
      onsessionclosed: (id) => sessions.delete(id),
    });
    await makeOld().connect(transport);
  }
  await transport.handleRequest(request, response, body);
}

async function stateless(request, response, body) {
  const options = { sessionIdGenerator: undefined, enableJsonResponse: true };
  const transport = new StreamableHTTPServerTransport(options);
  await makeOld().connect(transport);
  await transport.handleRequest(request, response, body);
}

const paths = { "/modern": modern, "/strict": strict, "/stateful": stateful, "/stateless": stateless };
const read = async (request) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  return body ? JSON.parse(body) : undefined;
};
const server = createServer(async (request, response) => {
  await paths[request.url](request, response, await read(request));
});
// A port that is free: which, it says.
server.listen(0, "127.0.0.1", () =>
  console.log(`listening on http://127.0.0.1:${server.address().port}`),
);
