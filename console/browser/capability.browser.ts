import { expect, status, test } from "./support/test";

test("the form says at the field what is wrong, and the plan says what the guardian decides", async ({
    owner: page,
}) => {
    await page.goto("/capabilities/SendNotification?tab=run");
    const topic = page.getByLabel(/^topic/);
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await expect(topic).toHaveAttribute("aria-invalid", "true");
    await expect(topic).toBeFocused();
    await expect(topic).toHaveAccessibleDescription(/A value is needed/);

    await topic.fill("family");
    await expect(topic).toHaveAttribute("aria-invalid", "false");
    await page.getByLabel(/^title/).fill("Home");
    await page.getByLabel(/^message/).fill("I am home");
    // What the form has is in the address.
    await expect(page).toHaveURL(/inputs=.*family/);
    await page.getByRole("button", { name: "Plan", exact: true }).click();
    await expect(page.getByRole("heading", { name: "Plan" })).toBeVisible();
    await expect(page.getByText(/https:\/\/ntfy\.sh/)).toBeVisible();
    await expect(status(page, "modify")).toBeVisible();
    await expect(page.getByText("Notifications make no sound.")).toBeVisible();
    await expect(page.locator(".change")).toContainText('"priority":4');
    await expect(page.locator(".change")).toContainText('"priority":2');
});

test("a value that does not fit is named before anything is sent", async ({ owner: page }) => {
    await page.goto("/capabilities/ReadManySensors?tab=run");
    const sensors = page.getByLabel(/^sensors/);
    await sensors.fill("[1, 2");
    await page.getByRole("button", { name: "Plan", exact: true }).click();
    await expect(sensors).toHaveAttribute("aria-invalid", "true");
});

test("a plan becomes the run that it shows", async ({ owner: page }) => {
    await page.goto("/capabilities/GetExchangeRate?tab=run");
    await page.getByLabel(/^from_currency/).fill("EUR");
    await page.getByLabel(/^to_currency/).fill("USD");
    await page.getByRole("button", { name: "Plan", exact: true }).click();
    await expect(page.getByText(/This plan can start one run/)).toBeVisible();
    await page.getByRole("button", { name: "Run this plan" }).click();
    await expect(page).toHaveURL(/\/runs\/[0-9a-f-]{36}/);
    await expect(status(page.locator(".title"), "succeeded")).toBeVisible();
    await expect(page.getByText('"1 EUR = 1.25 USD"')).toBeVisible();
});

test("two versions, their difference, and the checksum that the browser computes", async ({
    owner: page,
}) => {
    await page.goto("/capabilities/ReadBook?tab=versions");
    await expect(page.getByRole("row")).toHaveCount(3);
    await expect(page.getByRole("heading", { name: "Difference" })).toBeVisible();
    await expect(page.locator("main")).toContainText("pages");
    await page.getByRole("link", { name: "Verification" }).click();
    await expect(page.getByText("Verified: this browser computes the same checksum.")).toBeVisible();
    await page.getByRole("link", { name: "Source" }).click();
    await expect(page.getByRole("heading", { name: "Document" })).toBeVisible();
});

test("a name that nobody has published is said to be unknown", async ({ owner: page, errors }) => {
    errors.allow(/status of 404/);
    await page.goto("/capabilities/NoSuchCapability");
    await expect(page.getByRole("heading", { name: /There is no capability/ })).toBeVisible();
});
