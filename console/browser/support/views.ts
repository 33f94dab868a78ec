/** All views of the console with data worth looking at: for the check of accessibility, and for pictures. */
import { expect, type Page } from "@playwright/test";
import { OPENAPI } from "./documents";
import type { World } from "./world";

/** The ids of the runs that the views show. */
export interface Seeds {
    denied: string;
    modified: string;
    many: string;
    trip: string;
}

interface View {
    address: (seeds: Seeds) => string;
    /** A selector of what is there when the page is complete. */
    complete: string;
    act?: (page: Page) => Promise<void>;
}

const intent = (text: string): string => `/search?intent=${encodeURIComponent(text)}`;

export const VIEWS: Record<string, View> = {
    search: {
        address: () => intent("which kinds of dogs are there"),
        complete: "ol li",
        act: async (page) => page.getByText("Why", { exact: true }).first().click(),
    },
    "nothing-fits": { address: () => intent("fold the laundry of my aunt"), complete: "ul li" },
    runs: { address: () => "/runs", complete: "tbody tr" },
    run: {
        address: ({ trip }) => `/runs/${trip}?step=${encodeURIComponent("gather/readSummary/readSummary")}`,
        complete: "ins",
    },
    "run-denied": { address: ({ denied }) => `/runs/${denied}`, complete: ".rows li" },
    "run-modified": { address: ({ modified }) => `/runs/${modified}`, complete: "ins" },
    "run-many-steps": { address: ({ many }) => `/runs/${many}`, complete: ".rows li" },
    approvals: { address: () => "/approvals", complete: "article" },
    capability: { address: () => "/capabilities/PrepareTrip", complete: "main h2:visible" },
    "capability-run": {
        address: () =>
            `/capabilities/SendNotification?tab=run&inputs=${encodeURIComponent(JSON.stringify({ topic: "family", title: "Home", message: "I am home" }))}`,
        complete: ".panes form",
        act: async (page) => {
            await page.getByRole("button", { name: "Plan", exact: true }).click();
            await expect(page.getByRole("heading", { name: "Plan" })).toBeVisible();
        },
    },
    "capability-versions": { address: () => "/capabilities/ReadBook?tab=versions", complete: ".choice" },
    "capability-graph": { address: () => "/capabilities/PrepareTrip?tab=graph", complete: "svg" },
    "capability-verification": {
        address: () => "/capabilities/ListDogBreeds?tab=verification",
        complete: ".verdict",
    },
    "capability-outcomes": {
        address: () => "/capabilities/GetJoke?tab=outcomes",
        complete: "main h2:visible",
    },
    "capability-source": { address: () => "/capabilities/GetJoke?tab=source", complete: "main h2:visible" },
    "guardian-decisions": { address: () => "/guardian", complete: "li details" },
    "guardian-policy": {
        address: () => "/guardian?tab=policy",
        complete: "textarea",
        act: async (page) => {
            await page
                .getByLabel("Policy, in YAML")
                .fill(
                    "version: 1\ndefault: allow\nrules:\n  - id: no-jokes\n    on: toolCallRequest\n    tool: GetJoke.*\n    decision: deny\n    message: This is no place for jokes.\n",
                );
            await page.getByRole("button", { name: "Try it" }).click();
            await expect(page.getByRole("region", { name: "Result of the trial" })).toBeVisible();
        },
    },
    "guardian-log": {
        address: () => "/guardian?tab=log",
        complete: "li details",
        act: async (page) => {
            await page.getByRole("button", { name: "Check the log" }).click();
            await expect(page.getByText("Whole.")).toBeVisible();
        },
    },
    overview: { address: () => "/overview", complete: "dl" },
    publish: {
        address: () => "/publish",
        complete: "textarea",
        act: async (page) => {
            const start = page.getByRole("button", { name: "Start with an example" });
            if (await start.isVisible()) {
                await start.click();
            }
            const editor = page.getByLabel("Document", { exact: true });
            await editor.fill((await editor.inputValue()).replace("type: string\n", "type: strin\n"));
            await expect(page.getByText(/^1 error/)).toBeVisible();
            await page.getByRole("button", { name: "Line 14, column 11" }).click();
        },
    },
    "publish-openapi": {
        address: () => "/publish",
        complete: "textarea",
        act: async (page) => {
            await page.getByLabel("Document", { exact: true }).fill(OPENAPI);
            await page.getByRole("button", { name: "Make drafts" }).click();
            await expect(page.getByText("2 drafts")).toBeVisible();
        },
    },
    connect: { address: () => "/connect", complete: "figure pre" },
    "settings-tokens": { address: () => "/settings?section=tokens", complete: "tbody tr" },
    "settings-secrets": { address: () => "/settings?section=secrets", complete: "tbody tr" },
    "settings-owners": {
        address: () => "/settings?section=owners&name=ListDogBreeds",
        complete: "main h2:visible",
    },
    "settings-state": { address: () => "/settings?section=state", complete: "tbody tr" },
    "settings-trust": { address: () => "/settings?section=trust", complete: "tbody tr" },
    "settings-hosts": { address: () => "/settings?section=hosts", complete: "tbody tr" },
    "settings-mirrors": { address: () => "/settings?section=mirrors", complete: ".empty:visible" },
    "settings-index": { address: () => "/settings?section=index", complete: "main h2:visible" },
};

/** Shows a view, complete. */
export async function visit(page: Page, view: View, seeds: Seeds): Promise<void> {
    await page.goto(view.address(seeds));
    await expect(page.locator(view.complete).first()).toBeVisible();
    await view.act?.(page);
    await expect(page.locator("main")).not.toContainText(
        /(Loading|Checking|Planning|Computing|Searching|Drawing)[^.]*…/,
    );
}

let seeds: Promise<Seeds> | undefined;

/** Makes what the views show, once for each worker. */
export function seed(world: World): Promise<Seeds> {
    seeds ??= makeSeeds(world);
    return seeds;
}

async function makeSeeds(world: World): Promise<Seeds> {
    const trip = { city: "Lisbon", country_code: "PT", year: 2026 };
    const [denied, modified, many, prepared] = await Promise.all([
        world.run("CheckGrammar", { text: "He go home." }),
        world.run("SendNotification", { topic: "family", title: "Home", message: "I am home" }),
        world.run("ReadManySensors", { sensors: Array.from({ length: 60 }, (_, at) => at) }),
        world.run("PrepareTrip", trip),
        world.run("GetWikipediaSummary", { topic: "Lisbon" }),
        world.run("GetJoke"),
        world.run("ListDogBreeds"),
        world.run("GetCountry", { country_code: "FR" }),
        world.run("GetExchangeRate", { from_currency: "EUR", to_currency: "USD" }),
    ]);
    const reports = await world.createToken("reports", "execute");
    await world.createToken("release-bot", "publish");
    await Promise.all([
        world.run("GetCityWeather", { city: "Oslo" }, reports),
        world.run("ListHolidaysOfYears", { country_code: "DE", years: [2026, 2027] }, reports),
        // No city has this name.
        world.run("GetCityWeather", { city: "Atlantis" }, reports),
    ]);
    await world.startRun("PostTweet", { text: "The tide table of Dover is out" });
    await world.api("PUT", "/v1/secrets/api.weather.example/weatherKey", {
        kind: "api_key",
        value: "not-a-key",
    });
    await world.api("PUT", "/v1/state/city", "Lisbon");
    return { denied: denied.id, modified: modified.id, many: many.id, trip: prepared.id };
}
