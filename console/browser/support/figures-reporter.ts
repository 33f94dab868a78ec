import type { FullResult, Reporter, TestCase, TestResult } from "@playwright/test/reporter";

/** Prints what the tests have measured as one table, after all tests. */
export default class FiguresReporter implements Reporter {
    readonly #figures = new Map<string, string>();

    onTestEnd(_test: TestCase, result: TestResult): void {
        for (const { type, description } of result.annotations) {
            const [name, figure] = (description ?? "").split("|");
            if (type === "figure" && name !== undefined && figure !== undefined) {
                this.#figures.set(name, figure);
            }
        }
    }

    onEnd(_result: FullResult): void {
        if (this.#figures.size === 0) {
            return;
        }
        const width = Math.max(...[...this.#figures.keys()].map((name) => name.length));
        console.log("\nFigures of the console");
        for (const [name, figure] of this.#figures) {
            console.log(`  ${name.padEnd(width)}  ${figure}`);
        }
    }

    printsToStdio(): boolean {
        return false;
    }
}
