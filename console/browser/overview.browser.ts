import type { Page } from "@playwright/test";
import { expect, test } from "./support/test";

async function numberOf(page: Page, title: string): Promise<number> {
    const text = await page.locator("dl div").filter({ hasText: title }).first().locator("dd").textContent();
    return Number(text?.replaceAll(/\D/g, ""));
}

test("the counts grow with runs and searches without a hit", async ({ world, owner: page }) => {
    await world.run("GetJoke");
    await page.goto("/overview?period=hour");
    await expect(page.locator("dl")).toBeVisible();
    const [runs, without] = [await numberOf(page, "Runs"), await numberOf(page, "Without a hit")];
    await world.run("GetJoke");
    await world.run("CheckGrammar", { text: "a" });
    await world.api("POST", "/v1/search", { intent: "fold the laundry of my aunt" });
    await page.reload();
    await expect.poll(() => numberOf(page, "Runs")).toBe(runs + 2);
    await expect.poll(() => numberOf(page, "Without a hit")).toBe(without + 1);
    await expect(page.getByRole("link", { name: "A2S340" })).toBeVisible();
    await expect(page.getByRole("cell", { name: "GetJoke" })).toBeVisible();
    await expect(page.getByRole("cell", { name: "owner" })).toBeVisible();
    await page.getByLabel("Period").selectOption("week");
    await expect(page).toHaveURL(/period=week/);
});
