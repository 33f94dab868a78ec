import type { Page } from "@playwright/test";
import { expect, test, uniqueName } from "./support/test";

async function pagesOf(page: Page): Promise<string[]> {
    const links = page.getByRole("navigation", { name: "Pages" }).getByRole("link");
    await expect(links.first()).toBeVisible();
    return links.allInnerTexts();
}

/** The page says that the token does not permit it, under its own heading and in the product's words. */
async function expectRefusal(page: Page, address: string): Promise<void> {
    await page.goto(address);
    await expect(page.locator("main h1")).toBeVisible();
    await expect(
        page
            .locator("main")
            .getByText(/does not permit|scope|not permitted/)
            .first(),
    ).toBeVisible();
}

test("a token that may only execute sees no publishing and no administration", async ({
    world,
    browserOf,
}) => {
    const page = await browserOf(await world.createToken(uniqueName("runner"), "execute"));
    await page.goto("/search?intent=which+kinds+of+dogs+are+there");
    expect(await pagesOf(page)).toEqual(["Search", "Runs", "Overview", "Connect", "Settings", "API"]);
    await expect(page.getByRole("link", { name: "Run it" }).first()).toBeVisible();

    await page.goto("/capabilities/ListDogBreeds");
    await expect(page.getByRole("link", { name: "Run", exact: true })).toBeVisible();
    await expect(page.getByRole("button", { name: "Yank" })).toHaveCount(0);
    await page.goto("/settings");
    await expect(page.getByRole("link", { name: "Remembered values" })).toBeVisible();
    await expect(page.getByRole("link", { name: "Trust" })).toHaveCount(0);
    await expect(page.getByRole("link", { name: "Tokens" })).toHaveCount(0);

    for (const address of [
        "/publish",
        "/approvals",
        "/guardian",
        "/guardian?tab=policy",
        "/settings?section=tokens",
    ]) {
        await expectRefusal(page, address);
    }
});

test("a token that may only publish sees no runs", async ({ world, browserOf, errors }) => {
    const id = await world.startRun("GetJoke");
    const page = await browserOf(await world.createToken(uniqueName("author"), "publish"));
    await page.goto("/search?intent=which+kinds+of+dogs+are+there");
    expect(await pagesOf(page)).toEqual(["Search", "Overview", "Publish", "Connect", "Settings", "API"]);
    await expect(page.getByRole("link", { name: "ListDogBreeds" })).toBeVisible();
    await expect(page.getByRole("link", { name: "Run it" })).toHaveCount(0);

    await page.goto("/capabilities/ListDogBreeds?tab=run");
    await expect(page.getByRole("heading", { name: "ListDogBreeds" })).toBeVisible();
    await expect(page.getByRole("link", { name: "Run", exact: true })).toHaveCount(0);
    await page.goto("/overview");
    await expect(page.getByRole("heading", { name: "Overview" })).toBeVisible();

    errors.allow(/status of 403/);
    for (const address of ["/runs", `/runs/${id}`, "/guardian", "/settings?section=trust"]) {
        await expectRefusal(page, address);
    }
});

test("a token with both scopes runs and publishes, and administers nothing", async ({ world, browserOf }) => {
    const page = await browserOf(await world.createToken(uniqueName("builder"), "execute", "publish"));
    await page.goto("/");
    expect(await pagesOf(page)).toEqual([
        "Search",
        "Runs",
        "Overview",
        "Publish",
        "Connect",
        "Settings",
        "API",
    ]);
    await page.goto("/runs");
    // Runs of others are not there, and neither is the column that names them.
    await expect(page.getByRole("heading", { name: "No runs" })).toBeVisible();
    await expect(page.getByLabel("Token or user")).toHaveCount(0);
    await expectRefusal(page, "/settings?section=secrets");
});

test("a run of another token is like one that does not exist", async ({ world, browserOf, errors }) => {
    errors.allow(/status of 404/);
    const id = await world.startRun("GetJoke");
    const page = await browserOf(await world.createToken(uniqueName("runner"), "execute"));
    await page.goto(`/runs/${id}`);
    await expect(page.getByRole("alert")).toContainText(id);
});
