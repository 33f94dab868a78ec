import { expect, test, uniqueName } from "./support/test";

test("each client has its configuration", async ({ world, owner: page }) => {
    await page.goto("/connect");
    const links = page.getByRole("navigation", { name: "Clients" }).getByRole("link");
    await expect(links.first()).toBeVisible();
    const names = await links.allInnerTexts();
    expect(names.length).toBeGreaterThan(4);
    for (const name of names) {
        await page
            .getByRole("navigation", { name: "Clients" })
            .getByRole("link", { name, exact: true })
            .click();
        await expect(page.getByRole("heading", { level: 2, name, exact: true })).toBeVisible();
        await expect(page.locator("figure pre").first()).not.toBeEmpty();
    }
    await expect(page).toHaveURL(/client=/);
    await expect(page.locator("main")).toContainText(world.origin);
});

test("a token is shown once, and revoked", async ({ world, owner: page }) => {
    const name = uniqueName("ci");
    await page.goto("/settings?section=tokens");
    await page.getByLabel("Name", { exact: true }).fill(name);
    await page.getByRole("checkbox", { name: /^execute/ }).check();
    await page.getByRole("button", { name: "Make a token" }).click();
    const made = page.getByRole("status", { name: "The new token" });
    await expect(made).toContainText("it is not shown again");
    const token = (await made.locator("code").textContent()) ?? "";
    expect(
        (await world.api<{ runs: unknown[] }>("GET", "/v1/executions", undefined, token)).runs ?? [],
    ).toEqual([]);

    await page.reload();
    const row = page.getByRole("row").filter({ hasText: name });
    await expect(row).toContainText("execute");
    await expect(page.locator("main")).not.toContainText(token);
    await row.getByRole("button", { name: `Revoke ${name}` }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await expect(row).toHaveCount(0);
    await expect(world.api("GET", "/v1/executions", undefined, token)).rejects.toThrow("401");
});

test("a secret is stored and deleted, and its value is never shown", async ({ owner: page }) => {
    await page.goto("/settings?section=secrets");
    await page.getByLabel("Host", { exact: true }).fill("api.tides.example");
    await page.getByLabel("Security scheme in the document").fill("tidesKey");
    await page.getByLabel("Key", { exact: true }).fill("the-value-of-the-key");
    await page.getByRole("button", { name: "Store", exact: true }).click();
    await expect(page.getByText("Stored for api.tides.example, tidesKey.")).toBeVisible();
    const row = page.getByRole("row").filter({ hasText: "tidesKey" });
    await expect(row).toBeVisible();
    await expect(page.getByLabel("Key", { exact: true })).toHaveValue("");
    expect(await page.content()).not.toContain("the-value-of-the-key");
    await row.getByRole("button", { name: /^Delete/ }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await expect(row).toHaveCount(0);
});
