import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "./support/test";

const INTENT = "which kinds of dogs are there";

test("a hit shows the terms of its rank", async ({ owner: page }) => {
    await page.goto("/");
    await page.getByLabel("What do you want to do?").fill(INTENT);
    await page.keyboard.press("Enter");
    const hit = page.getByRole("listitem").filter({ hasText: "ListDogBreeds" });
    await expect(hit).toContainText(/\d+ %/);
    await expect(page).toHaveURL(/intent=which\+kinds\+of\+dogs/);
    await hit.getByText("Why", { exact: true }).click();
    const rows = hit.getByRole("row");
    await expect(rows.first()).toContainText("Term");
    expect(await rows.count()).toBeGreaterThan(3);
    await expect(hit.getByText(/similarity \d\.\d\d/)).toBeVisible();
});

test("without a hit, the page says why, and what is nearest", async ({ owner: page }) => {
    await page.goto(`/search?intent=${encodeURIComponent("fold the laundry of my aunt")}`);
    await expect(page.getByText(/^Nothing fits in/)).toBeVisible();
    await expect(page.getByText(/A hit needs a score of \d+ %/)).toBeVisible();
    await expect(page.getByRole("heading", { name: "Nearest" })).toBeVisible();
    const nearest = page.getByRole("listitem");
    expect(await nearest.count()).toBeGreaterThan(0);
    await expect(nearest.first()).toContainText(/score \d+ %, similarity/);
});

test("strategy and filters are in the address, and come from it", async ({ owner: page }) => {
    await page.goto(`/search?intent=${encodeURIComponent("the weather in Paris")}`);
    await page.getByText("Strategy and filters").click();
    await page.getByLabel("Strategy").selectOption("simplest");
    await expect(page).toHaveURL(/strategy=simplest/);
    await expect(page.getByText(/strategy simplest/)).toBeVisible();
    await page.getByLabel("Format").selectOption("OpenAPI");
    await page.getByLabel("Changes nothing").check();
    await expect(page).toHaveURL(/read_only=true/);
    await page.getByLabel("Services").fill("api.open-meteo.com");
    await page.keyboard.press("Tab");
    await expect(page).toHaveURL(/domain=api\.open-meteo\.com/);
    const names = page.locator("li strong a");
    await expect(names.first()).toBeVisible();
    await expect(names.filter({ hasText: "GetPublicHolidays" })).toHaveCount(0);
    const before = await names.allInnerTexts();

    await page.reload();
    await expect(page.getByLabel("Strategy")).toHaveValue("simplest");
    await expect(page.getByLabel("Changes nothing")).toBeChecked();
    await expect(page.getByLabel("Services")).toHaveValue("api.open-meteo.com");
    await expect(names).toHaveText(before);
});

test("the search as curl gives the hits of the page", async ({ owner: page }) => {
    await page.goto(`/search?intent=${encodeURIComponent("what's the weather in Paris")}&strategy=simplest`);
    const names = page.locator("li strong a");
    await expect(names.first()).toBeVisible();
    const shown = await names.allInnerTexts();
    await page.getByText("Copy as", { exact: true }).click();
    await page.getByRole("button", { name: "Copy curl" }).click();
    await expect(page.getByRole("button", { name: "Copied curl" })).toBeVisible();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    const { stdout } = await promisify(execFile)("sh", ["-c", command]);
    const { capabilities } = JSON.parse(stdout) as { capabilities: { name: string }[] };
    expect(capabilities.map(({ name }) => name)).toEqual(shown);

    for (const [language, word] of Object.entries({
        TypeScript: "A2SRegistry",
        Python: "search_capabilities",
        Go: "SearchCapabilities",
        MCP: "tools/call",
    })) {
        await page.getByRole("button", { name: language, exact: true }).click();
        await expect(page.locator("figure pre")).toContainText(word);
    }
});
