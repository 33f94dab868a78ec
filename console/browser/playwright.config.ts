import { defineConfig } from "@playwright/test";
import { findChromium } from "./support/chromium";

/** The tests of the console in a browser, against the program itself. `./test` runs them. */
export default defineConfig({
    testDir: ".",
    outputDir: "../node_modules/.cache/browser-results",
    // Conditions come much earlier, but on a machine with much to do.
    timeout: 90_000,
    expect: { timeout: 30_000 },
    // What passes only the second time is listed as flaky.
    retries: 1,
    // Each worker has a server of its own: with more than two they wait for each other.
    workers: 2,
    fullyParallel: false,
    forbidOnly: process.env["CI"] !== undefined,
    reporter: [["list"], ["./support/figures-reporter.ts"]],
    use: {
        viewport: { width: 1280, height: 800 },
        colorScheme: "light",
        locale: "en-GB",
        timezoneId: "UTC",
        screenshot: "only-on-failure",
        trace: process.env["A2S_TEST_TRACE"] ? "retain-on-failure" : "off",
        permissions: ["clipboard-read", "clipboard-write"],
        launchOptions: {
            executablePath: findChromium(),
            // Chromium has no sandbox for root.
            args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
        },
    },
    projects: [
        { name: "tests", testMatch: "*.browser.ts", testIgnore: "screenshots.browser.ts" },
        { name: "screenshots", testMatch: "screenshots.browser.ts" },
    ],
});
