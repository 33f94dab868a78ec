import { expect, status, test } from "./support/test";

test("a denied step shows the rule's words and what to do", async ({ world, owner: page }) => {
    const { id } = await world.run("CheckGrammar", { text: "He go home." });
    await page.goto(`/runs/${id}`);
    await expect(status(page.locator(".title"), "denied")).toBeVisible();
    const step = page.getByRole("region", { name: "Step", exact: true });
    await expect(step.getByRole("heading", { name: "Decisions" })).toBeVisible();
    await expect(status(step, "deny")).toBeVisible();
    await expect(step.getByText(/Texts stay in the house\./).first()).toBeVisible();
    await expect(page.getByText("private_text").first()).toBeVisible();
    await expect(page.getByRole("link", { name: "What A2S340 means" }).first()).toBeVisible();
});

test("a modification shows what it has changed", async ({ world, owner: page }) => {
    const { id } = await world.run("GetWikipediaSummary", { topic: "Lisbon" });
    await page.goto(`/runs/${id}`);
    const step = page.getByRole("region", { name: "Step", exact: true });
    await expect(status(step, "modify")).toBeVisible();
    await expect(step.locator("ins").first()).toContainText("[redacted]");
    // What the rule removes is not shown anywhere.
    await expect(page.locator("main")).not.toContainText("editor@encyclopedia.example", { timeout: 1 });
});

test("an input that a rule sets is shown before and after", async ({ world, owner: page }) => {
    const { id } = await world.run("SendNotification", {
        topic: "family",
        title: "Home",
        message: "I am home",
    });
    await page.goto(`/runs/${id}`);
    const step = page.getByRole("region", { name: "Step", exact: true });
    await expect(step.locator("del").first()).toContainText('"priority":4');
    await expect(step.locator("ins").first()).toContainText('"priority":2');
});

test("an approval in another tab lets the run go on by itself", async ({ world, owner: page, context }) => {
    const id = await world.startRun("PostTweet", { text: "Good morning" });
    await page.goto(`/runs/${id}`);
    await expect(status(page.locator(".title"), "waiting")).toBeVisible();
    const { approvals } = await world.api<{ approvals: unknown[] }>("GET", "/v1/approvals?status=pending");
    await expect(page).toHaveTitle(new RegExp(`^\\(${approvals.length}\\) `));

    const other = await context.newPage();
    await other.goto("/approvals");
    const article = other.getByRole("article").filter({ hasText: "Good morning" });
    await expect(article).toContainText("PostTweet.createTweet");
    await expect(article).toContainText("tweets-need-a-person");
    await expect(article.getByRole("link", { name: "The run" })).toHaveAttribute("href", new RegExp(id));
    await article.getByLabel("Reason").fill("friendly");
    await article.getByRole("button", { name: "Approve once" }).click();
    await expect(other.getByRole("row").filter({ hasText: "friendly" })).toContainText("PostTweet");

    await page.bringToFront();
    await expect(status(page.locator(".title"), "succeeded")).toBeVisible();
    await expect(page.getByText('"Good morning"').first()).toBeVisible();
    await expect(page).not.toHaveTitle(new RegExp(`^\\(${approvals.length}\\) `));
});

test("a rejection ends the run as denied", async ({ world, owner: page }) => {
    const id = await world.startRun("PostTweet", { text: "Bad morning" });
    await page.goto("/approvals");
    const article = page.getByRole("article").filter({ hasText: "Bad morning" });
    await article.getByRole("button", { name: "Reject" }).click();
    await expect(article).toHaveCount(0);
    await world.untilStatus(id, "denied");
    await page.goto(`/runs/${id}`);
    await expect(status(page.locator(".title"), "denied")).toBeVisible();
});

test("failed steps alone, a link to a step, and the arrow keys", async ({ world, owner: page }) => {
    const { id } = await world.run("ReadManySensors", { sensors: [11, 12, 13, 14, 113] });
    await page.goto(`/runs/${id}`);
    const steps = page.getByRole("region", { name: "Steps" });
    const rows = steps.getByRole("listitem");
    await expect(steps.getByRole("heading")).toHaveText("6 steps");
    await steps.getByLabel(/Failed only/).check();
    await expect(rows).toHaveCount(2);
    await expect(steps.getByRole("heading")).toHaveText("2 steps");
    await rows.first().getByRole("button").click();
    await expect(page).toHaveURL(/step=readSensor%5B2%5D/);
    await page.keyboard.press("ArrowDown");
    await expect(page).toHaveURL(/step=readSensor%5B4%5D/);
    await expect(rows.nth(1).getByRole("button")).toBeFocused();

    await page.goto(`/runs/${id}?step=${encodeURIComponent("readSensor[3]")}`);
    const step = page.getByRole("region", { name: "Step", exact: true });
    await expect(step.getByRole("heading", { level: 2 })).toHaveText("readSensor[3]");
    await expect(step).toContainText("/sensors/14");
    await expect(step).toContainText("200");
});

test("a run that is cancelled ends", async ({ world, owner: page }) => {
    const id = await world.startRun("WriteSlowReport");
    await page.goto(`/runs/${id}`);
    await expect(status(page.locator(".title"), "running")).toBeVisible();
    await expect(status(page.getByRole("region", { name: "Steps" }), "running")).toBeVisible();
    const cancel = page.getByRole("button", { name: "Cancel", exact: true });
    await cancel.click();
    await expect(status(page.locator(".title"), "cancelled")).toBeVisible();
    await expect(cancel).toHaveCount(0);
    await expect(page.getByText("is being cancelled")).toHaveCount(0);
});

test("a replay compares, and a deleted run is gone", async ({ world, owner: page, errors }) => {
    const { id } = await world.run("GetJoke");
    await page.goto(`/runs/${id}`);
    await page.getByRole("button", { name: "Replay" }).click();
    await expect(page.getByText("The replay equals the recording")).toBeVisible();
    await page.getByRole("button", { name: "Delete…" }).click();
    const dialog = page.getByRole("dialog");
    await expect(dialog).toContainText("removed for good");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await expect(page.getByRole("button", { name: "Delete…" })).toBeFocused();
    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await expect(page).toHaveURL(/\/runs$/);

    errors.allow(/status of 404/);
    await page.goto(`/runs/${id}`);
    await expect(page.getByRole("alert")).toContainText(id);
});
