import { expect, status, test } from "./support/test";

test("filters are in the address", async ({ world, owner: page }) => {
    await world.run("GetJoke");
    await world.run("CheckGrammar", { text: "a" });
    await page.goto("/runs");
    const rows = page.locator("tbody tr");
    await expect(rows.first()).toBeVisible();
    await page.getByLabel("State").selectOption("denied");
    await expect(page).toHaveURL(/status=denied/);
    await expect(rows.first()).toContainText("CheckGrammar");
    await expect(page.locator("tbody").getByText("GetJoke")).toHaveCount(0);
    await page.getByLabel("Capability").fill("GetJoke");
    await page.keyboard.press("Enter");
    await expect(page).toHaveURL(/name=GetJoke/);
    await expect(page.getByRole("heading", { name: "No runs" })).toBeVisible();

    await page.goto("/runs?status=succeeded&name=GetJoke");
    await expect(page.getByLabel("State")).toHaveValue("succeeded");
    await expect(status(rows.first(), "succeeded")).toBeVisible();
    await rows.first().getByRole("link", { name: "GetJoke" }).click();
    await expect(page.getByRole("heading", { name: "GetJoke" })).toBeVisible();
});

test("several runs are cancelled and deleted at once", async ({ world, owner: page }) => {
    await Promise.all([1, 2, 3].map(() => world.startRun("WriteSlowReport")));
    await page.goto("/runs?name=WriteSlowReport&status=running");
    const rows = page.locator("tbody tr");
    await expect(rows).toHaveCount(3);
    await page.getByLabel("Choose all").check();
    await page.getByRole("button", { name: "Cancel 3…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel them" }).click();
    await expect(page.getByRole("dialog")).toHaveCount(0);

    await page.goto("/runs?name=WriteSlowReport&status=cancelled");
    await expect(rows.nth(2)).toBeVisible();
    const count = await rows.count();
    await rows.nth(0).getByRole("checkbox").check();
    await rows.nth(1).getByRole("checkbox").check();
    await page.getByRole("button", { name: "Delete 2…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete them" }).click();
    await expect(rows).toHaveCount(count - 2);
});
