import { OPENAPI } from "./support/documents";
import { expect, test } from "./support/test";

test("errors are shown at their lines while typing; the fixed document is published and found", async ({
    owner: page,
    errors,
}) => {
    // The check of a document with errors is an answer with the status 422.
    errors.allow(/status of 4(00|22) .*\/v1\/(findability|capabilities)/);
    await page.goto("/publish");
    await page.getByRole("button", { name: "Start with an example" }).click();
    const editor = page.getByLabel("Document", { exact: true });
    const example = await editor.inputValue();
    await editor.fill(example.replace("type: string", "type: strin"));
    const line = example.slice(0, example.indexOf("type: string")).split("\n").length;
    const jump = page.getByRole("button", { name: new RegExp(`^Line ${line},`) });
    await expect(jump).toBeVisible();
    await expect(page.getByRole("button", { name: "Publish", exact: true })).toBeDisabled();
    await jump.click();
    await expect(editor).toBeFocused();
    await expect(page.locator(".gutter .error", { hasText: String(line) })).toBeVisible();
    const cursor = await editor.evaluate(
        (area: HTMLTextAreaElement) => area.value.slice(0, area.selectionStart).split("\n").length,
    );
    expect(cursor).toBe(line);

    await editor.fill(example);
    await page.getByRole("button", { name: "Fill in the checksum" }).click();
    await expect(page.getByText("The document is valid.")).toBeVisible();
    await page.getByRole("button", { name: "Publish", exact: true }).click();
    await expect(page.getByText(/Published:/)).toBeVisible();
    await page.getByRole("link", { name: "ReadTideTable" }).first().click();
    await expect(page.getByRole("heading", { name: "ReadTideTable" })).toBeVisible();
    await page.goto(`/search?intent=${encodeURIComponent("when is high tide in Dover")}`);
    await expect(page.locator("li strong a", { hasText: "ReadTideTable" })).toBeVisible();
});

test("an OpenAPI file becomes drafts that are published", async ({ owner: page, errors }) => {
    // The registry says the right checksum of a draft when it refuses it without one.
    errors.allow(/status of 422 .*\/v1\/(findability|capabilities)/);
    await page.goto("/publish");
    await page
        .getByLabel("File", { exact: true })
        .setInputFiles({ name: "harbour.yaml", mimeType: "application/yaml", buffer: Buffer.from(OPENAPI) });
    await expect(page.getByRole("heading", { name: "This is an OpenAPI description" })).toBeVisible();
    await page.getByRole("button", { name: "Make drafts" }).click();
    await expect(page.getByText("2 drafts")).toBeVisible();
    await page.getByRole("button", { name: "Publish chosen (2)" }).click();
    await expect(page.getByText("2 of 2 drafts published")).toBeVisible();
    await page.getByRole("link", { name: "✓ published" }).first().click();
    await expect(page).toHaveURL(/\/capabilities\//);
    await expect(page.getByText("tides.example.com").first()).toBeVisible();
});
