/** A stand-in for the services of the capabilities: one HTTP server, with data that never changes. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** The hosts whose requests the stand-in gets. */
export const HOSTS = [
    "dogapi.dog",
    "api.open-meteo.com",
    "geocoding-api.open-meteo.com",
    "en.wikipedia.org",
    "date.nager.at",
    "api.frankfurter.dev",
    "official-joke-api.appspot.com",
    "countries.trevorblades.com",
    "api.twitter.com",
    "ntfy.sh",
    "api.languagetoolplus.com",
    "sensors.example.com",
    "texts.example.com",
    "reports.example.com",
    "tea.example.com",
    "tides.example.com",
    "books.example.com",
] as const;

/** A text that does harm where a page takes it for something else than text. */
export const HOSTILE_MARKUP = `<img src="x" onerror="alert('injected')"><script>alert("injected")</script> "'\`${"$"}{7*7}{{7*7}}`;
/** The same, with characters that change the order of the text, and longer than a page shows at first. */
export const HOSTILE_TEXT = `${HOSTILE_MARKUP} invoice\u202Efdp.exe\u2066 ${"long ".repeat(1000)}`;

const DOGS = [
    ["Akita", "A large and powerful dog from the mountains of northern Japan."],
    ["Border Collie", "A herding dog of the border of England and Scotland, quick to learn."],
    ["Great Dane", "One of the largest breeds. Ask the club at office@great-danes.example."],
    ["Whippet", "A sighthound of medium size that sleeps most of the day."],
].map(([name, description], at) => ({
    id: String(at + 1),
    type: "breed",
    attributes: { name, description },
}));

const CITIES: Record<string, [country: string, latitude: number, longitude: number, temperature: number]> = {
    Paris: ["France", 48.85, 2.35, 14.2],
    Oslo: ["Norway", 59.91, 10.75, 3.1],
    Nairobi: ["Kenya", -1.28, 36.82, 26.8],
    Lisbon: ["Portugal", 38.72, -9.14, 18.4],
};

function forecastOf(latitude: number): object {
    const city = Object.values(CITIES).find(([, north]) => Math.abs(north - latitude) < 0.1);
    const now = city?.[3] ?? 11;
    return {
        timezone: "GMT",
        current: {
            time: "2026-05-04T09:00",
            temperature_2m: now,
            relative_humidity_2m: 61,
            wind_speed_10m: 12.5,
        },
        daily: {
            time: ["2026-05-04", "2026-05-05", "2026-05-06"],
            temperature_2m_max: [now + 3, now + 4.5, now + 2],
            temperature_2m_min: [now - 5, now - 4, now - 6],
            precipitation_probability_max: [10, 35, 60],
        },
    };
}

type Answer = { status?: number; body: unknown } | "never";

/** The server of the stand-in. */
export class Services {
    readonly #server: Server;
    readonly #held = new Set<ServerResponse>();
    #orders = 0;

    private constructor(server: Server) {
        this.#server = server;
    }

    static async start(): Promise<Services> {
        const server = createServer();
        const services = new Services(server);
        server.on("request", (request, response) => {
            services.#respond(request, response).catch((error) => response.destroy(error));
        });
        server.listen(0, "127.0.0.1");
        await once(server, "listening");
        return services;
    }

    /** The flags that send the requests for all hosts here. */
    upstreamFlags(): string[] {
        const { port } = this.#server.address() as AddressInfo;
        return HOSTS.flatMap((host) => ["--upstream", `${host}=http://127.0.0.1:${port}/`]);
    }

    /** The number of orders of tea so far. */
    get orders(): number {
        return this.#orders;
    }

    /** Answers the requests that wait. */
    release(): void {
        for (const response of this.#held) {
            send(response, { body: { ready: true } });
        }
        this.#held.clear();
    }

    async stop(): Promise<void> {
        this.#server.closeAllConnections();
        this.#server.close();
    }

    async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
        let body = "";
        for await (const part of request) {
            body += part;
        }
        const url = new URL(request.url ?? "/", "http://localhost");
        const answer = this.#answerOf(request.method ?? "GET", url, body);
        if (answer === "never") {
            this.#held.add(response);
            response.on("close", () => this.#held.delete(response));
        } else {
            send(response, answer);
        }
    }

    #answerOf(method: string, url: URL, body: string): Answer {
        const [first = "", second = "", ...rest] = url.pathname.split("/").slice(1).map(decodeURIComponent);
        if (first === "api" && second === "v2") {
            return { body: { data: DOGS, links: {} } };
        }
        if (first === "v1" && second === "search") {
            const name = url.searchParams.get("name") ?? "";
            const city = CITIES[name];
            const results = city && [{ name, country: city[0], latitude: city[1], longitude: city[2] }];
            return { body: results === undefined ? {} : { results } };
        }
        if (first === "v1" && second === "forecast") {
            return { body: forecastOf(Number(url.searchParams.get("latitude"))) };
        }
        if (first === "api" && second === "rest_v1") {
            return { body: summaryOf(rest[2] ?? "") };
        }
        if (url.pathname.includes("/PublicHolidays/")) {
            const year = url.pathname.split("/").at(-2);
            const days = [
                ["01-01", "New Year's Day", true],
                ["01-06", "Epiphany", false],
                ["10-03", "German Unity Day", true],
            ];
            return {
                body: days.map(([day, name, global]) => ({
                    date: `${year}-${day}`,
                    localName: name,
                    name,
                    global,
                })),
            };
        }
        if (first === "v2" && second === "rate") {
            const [base, quote] = rest;
            return { body: { date: "2026-05-04", base, quote, rate: 1.25 } };
        }
        switch (first) {
            case "random_joke":
                return {
                    body: {
                        id: 1,
                        type: "general",
                        setup: "Why do programmers count from zero?",
                        punchline: "It is the least they can do.",
                    },
                };
            case "graphql":
                return { body: graphqlOf(body) };
            case "v2":
                return { body: { language: { name: "English", code: "en" }, matches: [] } };
            case "sensors":
                return Number(second) % 100 === 13
                    ? { status: 404, body: { message: "This sensor does not exist." } }
                    : { body: { value: Number(second) / 10 } };
            case "texts":
                return { body: { text: HOSTILE_TEXT, [`<b>${"\u202E"}name</b>`]: HOSTILE_TEXT } };
            case "reports":
                return "never";
            case "orders":
                this.#orders += 1;
                return "never";
            case "harbours":
                return { body: { tides: ["06:12 high", "12:25 low"] } };
            case "books":
                return { body: { title: "The Sea", pages: 195 } };
            default:
                return method === "POST"
                    ? { body: { id: "msg000000001", time: 1780272000, topic: "family", message: "sent" } }
                    : { status: 404, body: {} };
        }
    }
}

function summaryOf(title: string): object {
    return {
        title,
        extract: `${title} is a subject that people like to read about. Corrections go to editor@encyclopedia.example.`,
        content_urls: { desktop: { page: `https://en.wikipedia.org/wiki/${encodeURIComponent(title)}` } },
    };
}

function graphqlOf(body: string): object {
    if (body.includes("createTweet")) {
        const { variables } = JSON.parse(body);
        return { data: { createTweet: { id: "1787", text: variables.text } } };
    }
    const country = {
        name: "France",
        native: "France",
        capital: "Paris",
        currency: "EUR",
        phone: "33",
        emoji: "🇫🇷",
    };
    return {
        data: { country: { ...country, continent: { name: "Europe" }, languages: [{ name: "French" }] } },
    };
}

function send(response: ServerResponse, answer: Exclude<Answer, "never">): void {
    response.writeHead(answer.status ?? 200, { "content-type": "application/json" });
    response.end(JSON.stringify(answer.body));
}
