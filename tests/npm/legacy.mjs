// The client of the older official SDK over both transports: legacy.mjs FOLDER URL TOKEN COMMAND

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { progressOf } from "./progress.mjs";

const [folder, url, token, command] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { ElicitRequestSchema } = await load("types.js");

const headers = { Authorization: `Bearer ${token}` };
const transports = {
  http: () => new StreamableHTTPClientTransport(new URL("mcp", url), { requestInit: { headers } }),
  stdio: () => new StdioClientTransport({ command, args: ["mcp"] }),
};
for (const [name, transport] of Object.entries(transports)) {
  const client = new Client({ name: "legacy", version: "1" }, { capabilities: { elicitation: {} } });
  const questions = [];
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    questions.push(params.message.split("\n")[0]);
    const content = params.requestedSchema.properties.text ? { text: `by ${name}` } : {};
    return { action: "accept", content };
  });
  const way = transport();
  const progress = progressOf(way);
  await client.connect(way);
  const { tools } = await client.listTools();
  const search = { name: "search_capabilities", arguments: { intent: "post a tweet" } };
  const found = await client.callTool(search);
  const hit = found.structuredContent.capabilities[0];
  const ran = await client.callTool(
    { name: "execute_capability", arguments: { name: hit.name, checksum: hit.checksum } },
    undefined,
    { onprogress: () => {} },
  );
  const { resources } = await client.listResources();
  const read = await client.readResource({ uri: resources[0].uri });
  console.log(
    JSON.stringify({
      transport: name,
      tools: tools.map((tool) => tool.name),
      found: hit.name,
      questions,
      output: ran.structuredContent.output,
      progress,
      read: read.contents[0].mimeType,
    }),
  );
  await client.close();
}
