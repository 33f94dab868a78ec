import { accessSync, constants } from "node:fs";

const LOCATIONS = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/usr/bin/google-chrome-stable",
];

function isExecutable(path: string): boolean {
    try {
        accessSync(path, constants.X_OK);
        return true;
    } catch {
        return false;
    }
}

/** Returns the path of the browser: `A2S_TEST_CHROMIUM`, or the one of the system. */
export function findChromium(): string {
    const found = [process.env["A2S_TEST_CHROMIUM"] ?? "", ...LOCATIONS].find(
        (path) => path !== "" && isExecutable(path),
    );
    if (found === undefined) {
        throw new Error("there is no Chromium: install it, or name it in A2S_TEST_CHROMIUM");
    }
    return found;
}
