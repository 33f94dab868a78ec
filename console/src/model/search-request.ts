/** A search as the controls of the page have it: in the address, as options of the SDK, and as code. Pure. */

export const STRATEGIES = [
    "highest_score",
    "most_similar",
    "most_reliable",
    "most_used",
    "simplest",
    "healthiest",
    "least_privilege",
] as const;

/** What the controls say. */
export interface SearchControls {
    intent: string;
    strategy: string;
    domain: string;
    author: string;
    format: string;
    isReadOnly: boolean;
}

/** The body of the request, without members that say nothing. */
export interface SearchBody {
    intent: string;
    strategy?: string;
    filters?: { domains?: string[]; author?: string; formats?: string[]; read_only?: boolean };
}

export function controlsOf(query: URLSearchParams): SearchControls {
    return {
        intent: query.get("intent") ?? "",
        strategy: query.get("strategy") ?? "",
        domain: query.get("domain") ?? "",
        author: query.get("author") ?? "",
        format: query.get("format") ?? "",
        isReadOnly: query.get("read_only") === "true",
    };
}

/** The parameters of the address; empty ones are left out by the router. */
export function queryOf(controls: SearchControls): Record<string, string | undefined> {
    const { isReadOnly, ...texts } = controls;
    return { ...texts, read_only: isReadOnly ? "true" : undefined };
}

export function bodyOf({ intent, strategy, domain, author, format, isReadOnly }: SearchControls): SearchBody {
    const domains = domain
        .split(/[\s,]+/)
        .map((one) => one.trim())
        .filter((one) => one !== "");
    const filters = {
        ...(domains.length > 0 && { domains }),
        ...(author.trim() !== "" && { author: author.trim() }),
        ...(format !== "" && { formats: [format] }),
        ...(isReadOnly && { read_only: true }),
    };
    return {
        intent: intent.trim(),
        ...(strategy !== "" && { strategy }),
        ...(Object.keys(filters).length > 0 && { filters }),
    };
}

export const LANGUAGES = ["curl", "TypeScript", "Python", "Go", "MCP"] as const;
export type Language = (typeof LANGUAGES)[number];

/** A text of JSON that a shell takes as it is between single quotes. */
function quotedForShell(text: string): string {
    return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** JSON is Python but for the words for true, false and null, which are not in texts here. */
function python(value: unknown): string {
    if (Array.isArray(value)) {
        return `[${value.map(python).join(", ")}]`;
    }
    if (typeof value === "object" && value !== null) {
        return `{${Object.entries(value)
            .map(([name, inner]) => `${JSON.stringify(name)}: ${python(inner)}`)
            .join(", ")}}`;
    }
    return value === true ? "True" : value === false ? "False" : JSON.stringify(value);
}

const GO_FIELDS = {
    domains: "Domains",
    author: "Author",
    formats: "Formats",
    read_only: "ReadOnly",
} as const;

function go(value: unknown): string {
    if (Array.isArray(value)) {
        return `{${value.map((one) => JSON.stringify(one)).join(", ")}}`;
    }
    return JSON.stringify(value);
}

/** The search as a program or a request. `origin` is the address of the server. */
export function codeOf(language: Language, body: SearchBody, origin: string): string {
    const { intent, ...options } = body;
    const { strategy, filters } = options;
    switch (language) {
        case "curl":
            return [
                `curl ${origin}/v1/search \\`,
                "  -H 'Content-Type: application/json' \\",
                `  -d ${quotedForShell(JSON.stringify(body))}`,
            ].join("\n");
        case "TypeScript": {
            const more = Object.keys(options).length > 0 ? `, ${JSON.stringify(options)}` : "";
            return [
                'import { A2SRegistry } from "@a2s/core";',
                "",
                `const registry = new A2SRegistry(${JSON.stringify(origin)});`,
                `const hits = await registry.searchCapabilities(${JSON.stringify(intent)}${more});`,
                "for (const { name, score } of hits) console.log(name, score);",
            ].join("\n");
        }
        case "Python": {
            const more = Object.entries(options).map(([name, value]) => `, ${name}=${python(value)}`);
            return [
                "from a2s import A2SRegistry",
                "",
                `registry = A2SRegistry(${JSON.stringify(origin)})`,
                `for hit in registry.search_capabilities(${JSON.stringify(intent)}${more.join("")}):`,
                '    print(hit["name"], hit["score"])',
            ].join("\n");
        }
        case "Go": {
            const members = Object.entries(filters ?? {}).map(([name, value]) => {
                const type = name === "formats" ? "[]a2s.Format" : Array.isArray(value) ? "[]string" : "";
                return `${GO_FIELDS[name as keyof typeof GO_FIELDS]}: ${type}${go(value)}`;
            });
            const parts = [
                ...(strategy ? [`Strategy: a2s.StrategyName(${JSON.stringify(strategy)})`] : []),
                ...(members.length > 0 ? [`Filters: &a2s.SearchFilters{${members.join(", ")}}`] : []),
            ];
            const more = parts.length > 0 ? `&a2s.SearchOptions{${parts.join(", ")}}` : "nil";
            return [
                `registry := a2s.NewRegistry(${JSON.stringify(origin)})`,
                `result, err := registry.SearchCapabilities(ctx, ${JSON.stringify(intent)}, ${more})`,
            ].join("\n");
        }
        case "MCP": {
            // The tool has fewer filters, and no strategy.
            const given = {
                intent,
                ...(filters?.read_only && { read_only: true }),
                ...(filters?.domains && { services: filters.domains }),
            };
            const params = { name: "search_capabilities", arguments: given };
            return JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }, null, 2);
        }
    }
}
