/** Texts of others, times and numbers, in the form in which they are shown. Pure. */

/**
 * Characters that change the order of the text around them, or are not seen (Unicode TR 36). The selector of an emoji
 * and a joiner after a character beyond ASCII are parts of writing, as in `a2s/src/display_safe.rs`.
 */
const INVISIBLE =
    /(?![\n\t\r]|(?<=\p{Emoji})[\ufe0e\ufe0f]|(?<=[^\p{ASCII}\p{DI}]|\ufe0f)[\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]/gu;

/** Shows each invisible character by its number. */
export function visible(text: string): string {
    return text.replace(
        INVISIBLE,
        (c) => `⟨U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
    );
}

/** Shortens a text to a number of characters. */
export function shorten(text: string, limit: number): string {
    const characters = [...text];
    return characters.length <= limit ? text : `${characters.slice(0, limit - 1).join("")}…`;
}

/** A duration in milliseconds, with its unit; a dash for none. */
export function duration(milliseconds: number | null | undefined): string {
    if (milliseconds === null || milliseconds === undefined) {
        return "–";
    }
    if (milliseconds < 1) {
        return "< 1 ms";
    }
    if (milliseconds < 1000) {
        return `${Math.round(milliseconds)} ms`;
    }
    if (milliseconds < 60_000) {
        return `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 2 : 1)} s`;
    }
    const minutes = Math.floor(milliseconds / 60_000);
    const seconds = Math.round((milliseconds % 60_000) / 1000);
    return minutes < 60 ? `${minutes} min ${seconds} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A share in percent: never 100 % for less than all, nor 0 % for more than nothing. */
export function percent(share: number): string {
    if (share > 0 && share < 0.005) {
        return "< 1 %";
    }
    if (share < 1 && share > 0.995) {
        return "> 99 %";
    }
    return `${Math.round(share * 100)} %`;
}

/** How long ago a time was. */
export function ago(time: string, now: number): string {
    const seconds = Math.round((now - Date.parse(time)) / 1000);
    if (seconds < 45) {
        return "just now";
    }
    const steps: [number, string][] = [
        [60, "min"],
        [3600, "h"],
        [86_400, "d"],
    ];
    const [length, unit] = steps.findLast(([length]) => seconds >= length) ?? [60, "min"];
    return `${Math.max(1, Math.round(seconds / length))} ${unit} ago`;
}
