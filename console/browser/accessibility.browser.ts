import { AxeBuilder } from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { expect, status, test } from "./support/test";
import { seed, VIEWS, visit } from "./support/views";

// The tests of this file share the workers.
test.describe.configure({ mode: "parallel" });

const TAGS = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"];

async function violationsOf(page: Page, theme: "light" | "dark"): Promise<string[]> {
    const builder = new AxeBuilder({ page });
    // A theme changes colours, and nothing else.
    const chosen = theme === "light" ? builder.withTags(TAGS) : builder.withRules(["color-contrast"]);
    const { violations } = await chosen.analyze();
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`));
}

/** The violations of a page, in both themes, on a desk and on a phone. */
async function violationsEverywhere(page: Page): Promise<string[]> {
    const found: string[] = [];
    for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 800 });
        for (const colorScheme of ["light", "dark"] as const) {
            await page.emulateMedia({ colorScheme });
            found.push(
                ...(await violationsOf(page, colorScheme)).map(
                    (violation) => `${colorScheme}, ${width} wide: ${violation}`,
                ),
            );
        }
        const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (excess > 0) {
            found.push(`${width} wide: the page is ${excess} px wider than the screen`);
        }
    }
    return found;
}

test("axe finds nothing on the sign-in", async ({ page }) => {
    await page.goto("/");
    await expect(page.getByRole("heading", { name: "Sign in" })).toBeVisible();
    expect(await violationsEverywhere(page)).toEqual([]);
});

const PARTS = 4;
const views = Object.entries(VIEWS);
for (let part = 0; part < PARTS; part += 1) {
    const names = views.filter((_, at) => at % PARTS === part);
    test(`axe finds nothing on ${names.map(([name]) => name).join(", ")}`, async ({
        world,
        owner: page,
        errors,
    }) => {
        test.setTimeout(90_000);
        errors.allow(/status of 4(04|22)/);
        const seeds = await seed(world);
        const found: Record<string, string[]> = {};
        for (const [name, view] of names) {
            await page.setViewportSize({ width: 1280, height: 800 });
            await visit(page, view, seeds);
            const violations = await violationsEverywhere(page);
            if (violations.length > 0) {
                found[name] = violations;
            }
        }
        expect(found).toEqual({});
    });
}

test("the keyboard alone signs in, searches, opens a hit and runs it", async ({ world, page }) => {
    /** Presses Tab until an element has the focus. */
    const tabTo = async (
        name: string | RegExp,
        role: "link" | "button" | "textbox" | "searchbox",
    ): Promise<void> => {
        const target = page.getByRole(role, { name, exact: typeof name === "string" }).first();
        await expect(target).toBeVisible();
        for (let presses = 0; presses < 60; presses += 1) {
            if (await target.evaluate((element) => element === document.activeElement)) {
                // The focus is seen.
                expect(await target.evaluate((element) => getComputedStyle(element).outlineStyle)).not.toBe(
                    "none",
                );
                return;
            }
            await page.keyboard.press("Tab");
        }
        throw new Error(`Tab does not reach ${name}`);
    };
    await page.goto("/");
    await expect(page.getByLabel("Or paste a token")).toBeVisible();
    for (let presses = 0; presses < 10; presses += 1) {
        if (await page.getByLabel("Or paste a token").evaluate((field) => field === document.activeElement)) {
            break;
        }
        await page.keyboard.press("Tab");
    }
    await page.keyboard.insertText(world.token);
    await page.keyboard.press("Enter");
    await tabTo("What do you want to do?", "searchbox");
    await page.keyboard.type("which kinds of dogs are there");
    await page.keyboard.press("Enter");
    await tabTo("ListDogBreeds", "link");
    await page.keyboard.press("Enter");
    await expect(page.getByRole("heading", { name: "ListDogBreeds" })).toBeVisible();
    await tabTo("Run", "link");
    await page.keyboard.press("Enter");
    await tabTo("Run", "button");
    await page.keyboard.press("Enter");
    await expect(status(page.locator(".title"), "succeeded")).toBeVisible();
});
