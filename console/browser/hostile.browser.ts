import type { Page } from "@playwright/test";
import { expect, test } from "./support/test";

/** No element of a text of others is in the page, and invisible characters are shown by their numbers. */
async function expectHarmless(page: Page): Promise<void> {
    expect(await page.locator("#app img, #app script, main b:not(strong)").count()).toBe(0);
    const text = await page.locator("#app").textContent();
    expect(text).not.toContain("\u202E");
    expect(text).not.toContain("\u2066");
}

test("texts of others are shown as texts", async ({ world, owner: page }) => {
    const { id } = await world.run("ReadHostileText", { topic: "<b>a</b>\u202Eb" });

    await page.goto("/capabilities/ReadHostileText");
    await expect(page.getByText('<img src="x"').first()).toBeVisible();
    await expectHarmless(page);
    for (const tab of ["run", "source", "verification", "graph", "outcomes", "versions"]) {
        await page.goto(`/capabilities/ReadHostileText?tab=${tab}`);
        await expect(page.getByRole("heading", { name: "ReadHostileText" })).toBeVisible();
        await expect(page.locator("main")).not.toContainText(/Loading/);
        await expectHarmless(page);
    }

    await page.goto(`/runs/${id}`);
    await expect(page.getByRole("heading", { name: "Response 200" })).toBeVisible();
    await expect(page.getByText("⟨U+202E⟩").first()).toBeVisible();
    // A long text is cut until a person asks for the rest.
    await expect(page.getByRole("button", { name: /^Show all [\d,]+ characters$/ }).first()).toBeVisible();
    await expectHarmless(page);

    await page.goto(`/search?intent=${encodeURIComponent("long long invoice text <b>bold</b>\u202E")}`);
    await expect(page.getByText(/ms, mode/)).toBeVisible();
    await expectHarmless(page);
    await page.goto("/guardian");
    const decision = page.getByRole("listitem").filter({ hasText: "ReadHostileText" }).first();
    await decision.locator("summary").click();
    await expect(decision.locator("pre")).toContainText("⟨U+202E⟩");
    await expectHarmless(page);
});

test("addresses that others have made are harmless", async ({ owner: page, errors }) => {
    errors.allow(/status of 40[04]/);
    const text = encodeURIComponent(`<img src=x onerror=alert(1)>\u202E`);
    for (const address of [
        `/capabilities/${text}`,
        `/runs/${text}`,
        `/search?intent=${text}`,
        `/runs?name=${text}`,
        `/runs?tenant=${text}`,
        `/guardian?rule=${text}`,
        `/settings?section=${text}`,
        `/connect?client=${text}`,
        `/overview?period=${text}`,
    ]) {
        await page.goto(address);
        await expect(page.locator("main h1").or(page.getByRole("alert")).first()).toBeVisible();
        await expectHarmless(page);
    }
});
