import { expect, test } from "vitest";
import { ago, duration, percent, shorten, visible } from "../src/model/words";

test("characters that are not seen are shown", () => {
    expect(visible("a\u202eb\u200bc\u0007")).toBe("a⟨U+202E⟩b⟨U+200B⟩c⟨U+0007⟩");
    expect(visible("a\u{e0165}\u3164\u00ad")).toBe("a⟨U+E0165⟩⟨U+3164⟩⟨U+00AD⟩");
    expect(visible("🌦\ufe0f 👩\u200d🚒 می\u200cخواهم")).toBe("🌦\ufe0f 👩\u200d🚒 می\u200cخواهم");
    expect(visible("line\nline\ttab 😀 é")).toBe("line\nline\ttab 😀 é");
});

test("durations have the unit that fits", () => {
    expect([0.2, 12.4, 999, 1500, 15_000, 61_000, 3_660_000].map(duration)).toEqual([
        "< 1 ms",
        "12 ms",
        "999 ms",
        "1.50 s",
        "15.0 s",
        "1 min 1 s",
        "1 h 1 min",
    ]);
    expect([null, undefined].map(duration)).toEqual(["–", "–"]);
});

test("only all is 100 %, and only nothing is 0 %", () => {
    expect([0, 0.001, 0.5, 0.999, 1].map(percent)).toEqual(["0 %", "< 1 %", "50 %", "> 99 %", "100 %"]);
});

test("times are told from now", () => {
    const now = Date.parse("2026-01-02T03:04:05Z");
    expect(ago("2026-01-02T03:04:00Z", now)).toBe("just now");
    expect(ago("2026-01-02T03:00:05Z", now)).toBe("4 min ago");
    expect(ago("2026-01-01T03:04:05Z", now)).toBe("1 d ago");
});

test("a text is cut between characters", () => {
    expect(shorten("😀😀😀", 2)).toBe("😀…");
    expect(shorten("abc", 3)).toBe("abc");
});
