import { expect, status, test } from "./support/test";

test("decisions appear by themselves, and the filter by rule is in the address", async ({
    world,
    owner: page,
}) => {
    await page.goto("/guardian");
    await expect(page.getByRole("heading", { name: "Guardian" })).toBeVisible();
    const before = await page.getByRole("listitem").count();
    await world.run("GetJoke");
    await world.run("CheckGrammar", { text: "a" });
    const denial = page.getByRole("listitem").filter({ hasText: "private-texts" }).first();
    await expect(denial).toBeVisible();
    expect(await page.getByRole("listitem").count()).toBeGreaterThan(before);
    await denial.locator("summary").click();
    await expect(denial.getByText("Texts stay in the house.").first()).toBeVisible();
    await expect(denial.getByRole("link", { name: "The step in its run" })).toBeVisible();

    await page.getByLabel("Rule").fill("private-texts");
    await page.getByRole("button", { name: "Apply" }).click();
    await expect(page).toHaveURL(/rule=private-texts/);
    await expect(page.getByRole("listitem").filter({ hasText: "GetJoke" })).toHaveCount(0);
    await expect(status(page.getByRole("listitem").first(), "deny")).toBeVisible();
});

test("a trial shows the decisions that would be different", async ({ world, owner: page, errors }) => {
    await world.run("GetJoke");
    await page.goto("/guardian?tab=policy");
    const editor = page.getByLabel("Policy, in YAML");
    await expect(editor).toHaveValue(/private-texts/);
    await editor.fill(
        "version: 1\ndefault: allow\nrules:\n  - {id: no-jokes, on: toolCallRequest, tool: GetJoke.*, decision: deny, message: This is no place for jokes.}\n",
    );
    await page.getByRole("button", { name: "Try it" }).click();
    const result = page.getByRole("region", { name: "Result of the trial" });
    await expect(result).toContainText("decisions would be different");
    const row = result.getByRole("row").filter({ hasText: "GetJoke.tellJoke" }).first();
    await expect(status(row, "allow")).toBeVisible();
    await expect(status(row, "deny")).toBeVisible();
    await expect(row).toContainText("no-jokes");

    errors.allow(/status of 4\d\d .*\/v1\/guardian\/trials/);
    await editor.fill("version: 1\ndefault: allow\nrules:\n  - {id: broken, decision: perhaps}\n");
    await page.getByRole("button", { name: "Try it" }).click();
    await expect(page.getByRole("alert")).toContainText(/line 4|4:/);
});

test("the audit log is checked", async ({ world, owner: page }) => {
    await world.run("GetJoke");
    await page.goto("/guardian?tab=log");
    await page.getByRole("button", { name: "Check the log" }).click();
    await expect(page.getByText("Whole.")).toBeVisible();
    await expect(page.getByText(/\d+ records in 1 segment/)).toBeVisible();
    await page.getByLabel("Event").selectOption("policy");
    await expect(page).toHaveURL(/event=policy/);
    await expect(page.getByRole("list", { name: "Records" }).getByRole("listitem")).toHaveCount(1);
});
