// A client of the types that openapi-typescript makes of the description: it searches, plans, runs and
// follows. Called with the address of the services and a token; prints one line for each.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [url, token] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({ baseUrl: url, headers: { authorization: `Bearer ${token}` } });

/** What was answered, or an error with what the problem says. */
function given<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) {
    throw new Error(`${answer.response.status}: ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

const found = given(await client.POST("/v1/search", { body: { intent: "list dog breeds", limit: 1 } }));
if (!("capabilities" in found)) throw new Error("one intent has one answer");
const hit = found.capabilities[0]!;
console.log("search:", hit.name, hit.version);

const { name, version, checksum } = hit;
const plan = given(await client.POST("/v1/plans", { body: { name, version, checksum } }));
const requests = plan.steps.map((step) => (step.type === "task" ? `${step.method} ${step.url}` : step.type));
console.log("plan:", requests.join(", "));

const run = given(await client.POST("/v1/executions", { body: { plan: plan.token!, wait: true } }));
console.log("run:", run.status, Object.keys(run.output as object).join(", "));

const stream = await client.GET("/v1/executions/{id}/events", {
  params: { path: { id: run.id } },
  parseAs: "text",
});
const data = given(stream).split("\n").filter((line) => line.startsWith("data: "));
const events = data.map((line) => JSON.parse(line.slice(6)) as components["schemas"]["Event"]);
const kinds = events.map((event) => event.type);
console.log("follow:", kinds[0], kinds.at(-1));
const last = events.at(-1)!;
if (last.type === "run_finished") console.log("finished:", last.status);
