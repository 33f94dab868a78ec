// The client of the official SDK over both transports: modern.mjs FOLDER URL TOKEN COMMAND

import { pathToFileURL } from "node:url";
import { progressOf } from "./progress.mjs";

const [folder, url, token, command] = process.argv.slice(2);
const load = (path) =>
  import(pathToFileURL(`${folder}/node_modules/@modelcontextprotocol/client/dist/${path}`));
const { Client, StreamableHTTPClientTransport } = await load("index.mjs");
const { StdioClientTransport } = await load("stdio.mjs");

const headers = { Authorization: `Bearer ${token}` };
const transports = {
  http: () => new StreamableHTTPClientTransport(new URL("mcp", url), { requestInit: { headers } }),
  stdio: () => new StdioClientTransport({ command, args: ["mcp"] }),
};
for (const [name, transport] of Object.entries(transports)) {
  const capabilities = { elicitation: { form: {} } };
  const versionNegotiation = { mode: "auto" };
  const client = new Client({ name: "modern", version: "1" }, { capabilities, versionNegotiation });
  const questions = [];
  client.setRequestHandler("elicitation/create", ({ params }) => {
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
    { onprogress: () => {} },
  );
  const { resources } = await client.listResources();
  const read = await client.readResource({ uri: resources[0].uri });
  console.log(
    JSON.stringify({
      transport: name,
      version: client.getNegotiatedProtocolVersion(),
      tools: tools.map((tool) => tool.name),
      found: hit.name,
      questions,
      output: ran.structuredContent?.output ?? ran.content,
      progress,
      read: read.contents[0].mimeType,
    }),
  );
  await client.close();
}
