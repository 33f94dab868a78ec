/** Takes a picture of each view in both themes, for the docs: `npm run screenshots`. */
import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { withPalette } from "./support/palette";
import { expect, test } from "./support/test";
import { seed, VIEWS, visit } from "./support/views";

const FOLDER = fileURLToPath(new URL("../../docs/images/", import.meta.url));
/** A picture has at most so many bytes. */
const MAX_BYTES = 120_000;

for (const theme of ["light", "dark"] as const) {
    test(`pictures of the views: ${theme}`, async ({ world, owner: page, errors }) => {
        test.setTimeout(180_000);
        errors.allow(/status of 4(04|22)/);
        await mkdir(FOLDER, { recursive: true });
        await page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
        const seeds = await seed(world);
        for (const [name, view] of Object.entries(VIEWS)) {
            await visit(page, view, seeds);
            const path = `${FOLDER}console-${name}-${theme}.png`;
            const picture = withPalette(await page.screenshot({ animations: "disabled", caret: "hide" }));
            expect.soft(picture.length, name).toBeLessThan(MAX_BYTES);
            await writeFile(path, picture);
        }
    });
}
