import { expect, test, uniqueName } from "./support/test";

test("a link signs in once", async ({ world, page, browser, errors }) => {
    const link = await world.signInLink();
    await page.goto(link);
    await expect(page.getByRole("navigation", { name: "Pages" })).toBeVisible();
    expect(page.url()).toBe(`${world.origin}/`);
    // The history keeps no code.
    await page.goBack();
    expect(page.url()).not.toContain("code=");

    errors.allow(/status of 401 .*\/session$/);
    const other = await browser.newContext();
    errors.watch(other);
    const second = await other.newPage();
    await second.goto(link);
    await expect(second.getByRole("alert")).toContainText("has been used, or is too old");
    await expect(second.getByLabel("Or paste a token")).toBeVisible();
    await other.close();
});

test("a pasted token signs in, and the session ends with the sign-out", async ({ world, page }) => {
    await page.goto("/runs");
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await expect(page).toHaveTitle("Sign in · A2S");
    const field = page.getByLabel("Or paste a token");
    await field.fill("a2s_not_a_token");
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("alert")).toBeVisible();

    await field.fill(world.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await expect(page.getByRole("link", { name: "Search", exact: true })).toHaveAttribute(
        "aria-current",
        "page",
    );
    await expect(page.locator(".subject")).toHaveText("owner");
    const cookies = await page.context().cookies();
    expect(cookies.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite }))).toEqual([
        { httpOnly: true, sameSite: "Strict" },
    ]);
    expect(
        await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }])),
    ).not.toContain(world.token);

    await page.getByRole("button", { name: "Sign out" }).click();
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await page.goto("/runs");
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
});

test("a revoked token ends the session at its next request", async ({ world, browserOf, errors }) => {
    errors.allow(/status of 401/);
    const name = uniqueName("guest");
    const page = await browserOf(await world.createToken(name, "execute"));
    await page.goto("/runs");
    await expect(page.getByRole("heading", { name: "No runs" })).toBeVisible();
    await world.api("DELETE", `/v1/tokens/${name}`);
    await page.getByRole("button", { name: "Apply" }).click();
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
});
