import { expect, report, status, test } from "./support/test";

const COUNT = 1000;

test("a run of 1,000 steps streams in and scrolls", async ({ world, owner: page }) => {
    test.setTimeout(90_000);
    await page.goto("/runs");
    await page.evaluate(() => {
        const frames: number[] = [];
        let last = performance.now();
        const note = (now: number): void => {
            frames.push(now - last);
            last = now;
            requestAnimationFrame(note);
        };
        requestAnimationFrame(note);
        Object.assign(window, { frames });
    });
    const sensors = Array.from({ length: COUNT }, (_, at) => at);
    const id = await world.startRun("ReadManySensors", { sensors });
    // Within the page, so that the frames of the first drawing count, too.
    await page.evaluate((address) => {
        const link = document.createElement("a");
        link.href = address;
        document.body.append(link);
        link.click();
        link.remove();
    }, `/runs/${id}`);
    const steps = page.getByRole("region", { name: "Steps" });
    const rows = steps.getByRole("listitem");
    await expect(status(page.locator(".title"), "running")).toBeVisible();
    await expect(status(page.locator(".title"), "succeeded")).toBeVisible({ timeout: 60_000 });
    await expect(steps.getByRole("heading")).toHaveText("1,001 steps");
    expect(await rows.count()).toBeLessThan(100);

    // The last step is at the end, and the failed ones are counted.
    await steps.locator(".rows").evaluate((list) => list.scrollTo(0, list.scrollHeight));
    await expect(rows.last()).toContainText(`readSensor[${COUNT - 1}]`);
    await expect(rows.last()).toBeInViewport();
    expect(await rows.count()).toBeLessThan(100);
    await expect(steps.getByLabel("Failed only (10)")).toBeVisible();

    const frames = await page.evaluate(() => (window as unknown as { frames: number[] }).frames);
    const sorted = frames.toSorted((a, b) => a - b);
    const at = (share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
    report(
        "frames of the run with 1,000 steps",
        `${frames.length} frames, median ${at(0.5).toFixed(0)} ms, 95 % ${at(0.95).toFixed(0)} ms, longest ${at(1).toFixed(0)} ms`,
    );
});
