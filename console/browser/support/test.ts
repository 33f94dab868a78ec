/** The fixtures of the tests: the world of a worker, and pages that must not report any error. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type BrowserContext, test as base, expect, type Locator, type Page } from "@playwright/test";
import { World } from "./world";

export { expect };

/** A folder with built pages that replace those of the program, to test changes without compiling it. */
const PAGES = process.env["A2S_TEST_PAGES"];
const PATHS_OF_PAGES =
    /^\/((approvals|assets|capabilities|connect|guardian|overview|publish|runs|search|settings|sign-in)(\/|$)|$)/;

/** The errors that the pages of a test have reported. */
export class PageErrors {
    readonly #errors: string[] = [];
    readonly #allowed: RegExp[] = [
        // Each first load asks who is signed in.
        /status of 401 .*\/session$/,
    ];

    /** Allows errors whose text or address matches: the browser reports each refused request. */
    allow(...patterns: RegExp[]): void {
        this.#allowed.push(...patterns);
    }

    watch(context: BrowserContext): void {
        context.on("console", (message) => {
            if (message.type() === "error" || message.type() === "warning") {
                this.#errors.push(`${message.text()} ${message.location().url}`);
            }
        });
        context.on("weberror", (error) => this.#errors.push(`uncaught: ${error.error().message}`));
        context.on("dialog", (dialog) => {
            this.#errors.push(`dialog: ${dialog.message()}`);
            dialog.dismiss().catch(() => undefined);
        });
    }

    /** The errors that are not allowed. */
    get unexpected(): string[] {
        return this.#errors.filter((error) => !this.#allowed.some((pattern) => pattern.test(error)));
    }
}

async function replacePages(context: BrowserContext, origin: string, folder: string): Promise<void> {
    const served = await fetch(`${origin}/`);
    const policy = served.headers.get("content-security-policy") ?? "";
    const types: Record<string, string> = {
        js: "text/javascript",
        css: "text/css",
        svg: "image/svg+xml",
        html: "text/html",
    };
    await context.route(
        (url) => url.origin === origin && PATHS_OF_PAGES.test(url.pathname),
        async (route) => {
            const { pathname } = new URL(route.request().url());
            const file = pathname.startsWith("/assets/") ? pathname : "/index.html";
            const body = await readFile(join(folder, file)).catch(() => undefined);
            const type = types[file.split(".").at(-1) ?? ""] ?? "application/octet-stream";
            await route.fulfill({
                status: body === undefined ? 404 : 200,
                headers: { "content-type": type, "content-security-policy": policy },
                body: body ?? "",
            });
        },
    );
}

/** Signs the browser of a context in. */
export async function signIn(context: BrowserContext, world: World, token = world.token): Promise<void> {
    const response = await context.request.post(`${world.origin}/session`, {
        data: { token },
        headers: { origin: world.origin },
    });
    expect(response.status()).toBe(200);
}

interface TestFixtures {
    errors: PageErrors;
    /** A page that is signed in with the owner's token. */
    owner: Page;
    /** Makes a further browser, signed in with a token. */
    browserOf: (token: string) => Promise<Page>;
}

export const test = base.extend<TestFixtures, { world: World }>({
    world: [
        // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the names of the fixtures from it.
        async ({}, use) => {
            const world = await World.start();
            await use(world);
            await world.stop();
        },
        { scope: "worker", timeout: 120_000 },
    ],
    baseURL: async ({ world }, use) => use(world.origin),
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the names of the fixtures from it.
    errors: async ({}, use) => {
        const errors = new PageErrors();
        await use(errors);
        expect(errors.unexpected, "errors that the pages have reported").toEqual([]);
    },
    context: async ({ context, errors, world }, use) => {
        errors.watch(context);
        if (PAGES) {
            await replacePages(context, world.origin, PAGES);
        }
        await use(context);
    },
    owner: async ({ page, context, world }, use) => {
        await signIn(context, world);
        await use(page);
    },
    browserOf: async ({ browser, errors, world, contextOptions }, use) => {
        const contexts: BrowserContext[] = [];
        await use(async (token) => {
            const context = await browser.newContext({ ...contextOptions, baseURL: world.origin });
            contexts.push(context);
            errors.watch(context);
            if (PAGES) {
                await replacePages(context, world.origin, PAGES);
            }
            await signIn(context, world, token);
            return context.newPage();
        });
        await Promise.all(contexts.map((context) => context.close()));
    },
});

/** The status of the page's title line, or of another part of a page. */
export function status(within: Page | Locator, word: string): Locator {
    return within.locator(".status", { hasText: word }).first();
}

/** Reports a figure, which is printed after all tests. */
export function report(name: string, figure: string): void {
    test.info().annotations.push({ type: "figure", description: `${name}|${figure}` });
}

let count = 0;

/** Returns a name that no other test has. */
export function uniqueName(prefix: string): string {
    count += 1;
    return `${prefix}-${process.pid}-${count}`;
}
