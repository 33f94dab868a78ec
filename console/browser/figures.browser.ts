import { expect, report, test } from "./support/test";

/** What the first view may load, in compressed bytes. */
const MAX_FIRST_LOAD = 120_000;

test("the first view is small, and soon there", async ({ owner: page }) => {
    const client = await page.context().newCDPSession(page);
    await client.send("Network.enable");
    await client.send("Network.setCacheDisabled", { cacheDisabled: true });
    const isPage = new Map<string, boolean>();
    let bytes = 0;
    let files = 0;
    client.on("Network.responseReceived", ({ requestId, response }) => {
        isPage.set(requestId, !/\/(v1|session)(\/|$)/.test(new URL(response.url).pathname));
    });
    client.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
        if (isPage.get(requestId)) {
            bytes += encodedDataLength;
            files += 1;
        }
    });

    const times: number[] = [];
    for (let visit = 0; visit < 5; visit += 1) {
        [bytes, files] = [0, 0];
        await page.goto("/search", { waitUntil: "commit" });
        await page.getByLabel("What do you want to do?").waitFor();
        // The field takes what a person types: the page is interactive.
        times.push(
            await page.evaluate(
                () =>
                    new Promise<number>((resolve) =>
                        requestAnimationFrame(() => setTimeout(() => resolve(performance.now()))),
                    ),
            ),
        );
        await page.waitForLoadState("networkidle");
    }
    const median = times.toSorted((a, b) => a - b)[2] ?? 0;
    report(
        "first load, compressed",
        `${(bytes / 1000).toFixed(1)} kB in ${files} files (at most ${MAX_FIRST_LOAD / 1000} kB)`,
    );
    report("navigation to interactive on loopback", `${median.toFixed(0)} ms (median of 5; aim 300 ms)`);
    expect(bytes).toBeGreaterThan(1000);
    expect(bytes).toBeLessThanOrEqual(MAX_FIRST_LOAD);
});
