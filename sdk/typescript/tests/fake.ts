/** A small A2S for the tests of the adapters: it reads the weather, and posts what a person approves. */
import type { TestContext } from "node:test";
import { type A2SRegistry, type CapabilityDocument, computeChecksum } from "@a2s/core";
import { type Json, json, type Received, type Reply, registryAt, serve } from "./support.js";

const WEATHER = {
    a2s: "1.1.0",
    name: "ReadWeather",
    version: "1.0.0",
    description: "Reads the weather in a city",
    parameters: [
        { name: "city", description: "Name of the city", type: "string" },
        { name: "days", type: "integer", default: 3 },
        { name: "key", type: "string", secret: true, default: "" },
    ],
    execution: { type: "sequence", steps: [] },
};
const TWEET = {
    ...WEATHER,
    name: "PostTweet",
    description: "Posts a tweet",
    parameters: [{ name: "text", type: "string" }],
};

/** The fake A2S, with a registry and what it received. */
export interface Fake {
    registry: A2SRegistry;
    received: Received[];
    /** The documents. Changing one makes the registry lie. */
    documents: Record<string, CapabilityDocument>;
    /** The approvals that a tweet needs, one after the other. */
    needed: string[];
    /** Keeps the weather waiting, and gets a call when its events are followed. */
    followed: (() => void) | undefined;
    /** References with checksums. */
    weather: string;
    tweet: string;
    /** The bodies of the starts of runs. */
    runs(): Json[];
    /** The paths of what was decided. */
    decisions(): string[];
}

/** Starts a fake A2S, which ends with the test. */
export async function startFake(context: TestContext): Promise<Fake> {
    const documents: Record<string, CapabilityDocument> = {};
    for (const document of [WEATHER, TWEET]) {
        documents[document.name] = { ...document, checksum: await computeChecksum(document) };
    }
    const pins = structuredClone(documents);
    const fake = { needed: ["a1"], followed: undefined } as unknown as Fake;
    const approved = new Set<string>();
    const cancelled = new Set<string>();

    const hit = (name: string): Json => {
        const { description, checksum, version } = pins[name] as CapabilityDocument;
        const parameters = (name === "PostTweet" ? TWEET : WEATHER).parameters.map((parameter) => ({
            ...parameter,
            required: !("default" in parameter),
        }));
        return { id: name, name, version, checksum, description, parameters, score: 0.9, match: "strong" };
    };
    const run = (name: string): Json => {
        const { checksum, version } = pins[name] as CapabilityDocument;
        const record = { id: `run-${name}`, name, version, checksum, started_at: "" };
        if (name === "ReadWeather" && fake.followed) {
            return { ...record, status: cancelled.has(name) ? "cancelled" : "running" };
        }
        if (name === "ReadWeather") {
            return { ...record, status: "succeeded", output: { weather: "Sunny" } };
        }
        const waitsFor = fake.needed.find((id) => !approved.has(id));
        return waitsFor === undefined
            ? { ...record, status: "succeeded", output: { posted: true } }
            : {
                  ...record,
                  status: "waiting",
                  error: { code: "A2S346", message: "a person must approve", hint: "", repeat_safe: true },
                  approvals: [{ id: waitsFor, step: "post", guardian: "builtin" }],
              };
    };
    const answer = ({ method, path, body }: Received): Reply => {
        const sent = body === "" ? {} : JSON.parse(body);
        const [, , , name = ""] = path.split("/");
        if (path.endsWith("/events")) {
            return {
                status: 200,
                headers: { "content-type": "text/event-stream" },
                hold: () => fake.followed?.(),
            };
        }
        if (path.endsWith("/cancel")) {
            cancelled.add(name.replace("run-", ""));
            return json(run(name.replace("run-", "")));
        }
        switch (`${method} ${path.replace(/(capabilities|executions)\/.*/, "$1/")}`) {
            case "GET /v1/capabilities/":
                return json(documents[name]);
            case "POST /v1/search": {
                const found = Object.keys(documents).filter((key) => {
                    return sent.intent.includes(key === "PostTweet" ? "tweet" : "weather");
                });
                const nearest = [
                    { name: "PostTweet", version: "1.0.0", similarity: 0.1, description: "Posts" },
                ];
                return json({ capabilities: found.map(hit), metadata: found.length > 0 ? {} : { nearest } });
            }
            case "POST /v1/plans": {
                const wanted = sent.name === "PostTweet" && sent.preview && approved.size === 0;
                const reason_codes = wanted ? ["approval_required"] : [];
                const decision = { decision: wanted ? "deny" : "allow", reason_codes };
                const step = { step: "s", preview: { type: "decided", decisions: [decision] } };
                return json({ capability: pins[sent.name], missing: [], hosts: {}, steps: [step] });
            }
            case "POST /v1/executions":
                return sent.inputs?.city === "Nowhere"
                    ? json({ status: 422, code: "A2S324", detail: "no such city", hint: "Name a city." }, 422)
                    : json(run(sent.name));
            case "POST /v1/approvals/a1/approve":
            case "POST /v1/approvals/a2/approve":
                approved.add(path.split("/")[3] ?? "");
                return json({});
            case "POST /v1/executions/":
                return json({ status: 409, code: "A2S309", detail: "it goes on by itself" }, 409);
            default:
                return json(run(name.replace("run-", "")));
        }
    };
    const { url, received } = await serve(context, answer);
    const reference = (name: string): string => `${name}@1.0.0#${pins[name]?.checksum}`;
    Object.assign(fake, {
        registry: registryAt(url),
        received,
        documents,
        weather: reference("ReadWeather"),
        tweet: reference("PostTweet"),
        runs: () =>
            received
                .filter(({ method, path }) => method === "POST" && path === "/v1/executions")
                .map(({ body }) => JSON.parse(body)),
        decisions: () => received.map(({ path }) => path).filter((path) => path.startsWith("/v1/approvals")),
    });
    return fake;
}
