import { expect, status, test } from "./support/test";

test("the page goes on by itself when the server comes back", async ({ world, owner: page, errors }) => {
    errors.allow(
        /ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED_ENCODING/,
    );
    const before = world.services.orders;
    const id = await world.startRun("OrderTea");
    await expect.poll(() => world.services.orders).toBe(before + 1);
    await page.goto(`/runs/${id}`);
    await expect(status(page.locator(".title"), "running")).toBeVisible();

    await world.stopServer("SIGKILL");
    const banner = page.getByText("The server does not respond.");
    await expect(banner).toBeVisible();
    await world.startServer();
    await expect(banner).toBeHidden();
    // The session holds, and the run asks what became of its request.
    await expect(status(page.locator(".title"), "waiting")).toBeVisible({ timeout: 20_000 });
    await expect(page.getByText("A2S371").first()).toBeVisible();
    for (const name of ["Repeat", "Skip", "Set…"]) {
        await expect(page.getByRole("button", { name })).toBeVisible();
    }

    await page.getByRole("button", { name: "Set…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Outputs, as JSON").fill("17");
    await dialog.getByRole("button", { name: "Set and go on" }).click();
    await expect(dialog.getByRole("alert")).toContainText("Give an object");
    await dialog.getByLabel("Outputs, as JSON").fill('{"order": 17}');
    await dialog.getByRole("button", { name: "Set and go on" }).click();
    await expect(status(page.locator(".title"), "succeeded")).toBeVisible();
    await expect(page.getByText('"order": 17').first()).toBeVisible();
    // The request was not sent again.
    expect(world.services.orders).toBe(before + 1);
});
