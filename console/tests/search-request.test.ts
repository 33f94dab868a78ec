import { expect, test } from "vitest";
import { bodyOf, codeOf, controlsOf, LANGUAGES, queryOf } from "../src/model/search-request";

const FULL =
    "intent=it's+%22here%22&strategy=most_used&domain=a.example, b.example&author=Ada&format=MCP&read_only=true";

test("controls go to the address and back", () => {
    const controls = controlsOf(new URLSearchParams(FULL));
    const query = new URLSearchParams(queryOf(controls) as Record<string, string>);
    expect(controlsOf(query)).toEqual(controls);
});

test("what is not said is not sent", () => {
    expect(bodyOf(controlsOf(new URLSearchParams("intent= dogs ")))).toEqual({ intent: "dogs" });
    expect(bodyOf(controlsOf(new URLSearchParams(FULL)))).toEqual({
        intent: `it's "here"`,
        strategy: "most_used",
        filters: { domains: ["a.example", "b.example"], author: "Ada", formats: ["MCP"], read_only: true },
    });
});

test("a search is copied as code that quotes what is in it", () => {
    const body = bodyOf(controlsOf(new URLSearchParams(FULL)));
    const code = Object.fromEntries(LANGUAGES.map((one) => [one, codeOf(one, body, "http://h:1")]));
    expect(code).toMatchSnapshot();
    expect(codeOf("Go", { intent: "dogs" }, "http://h:1")).toContain('ctx, "dogs", nil)');
});
