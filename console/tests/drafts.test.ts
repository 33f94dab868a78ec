import { A2SRegistry, computeChecksum } from "@a2s/core";
import { expect, test } from "vitest";
import * as model from "../src/model/drafts";

const RIGHT = `sha256:${"ab".repeat(32)}`;

test("an OpenAPI description is known by its first level", () => {
    expect(model.kindOf(" \n")).toBe("empty");
    expect(model.kindOf("# x\nopenapi: 3.0.3\n")).toBe("openapi");
    expect(model.kindOf('"swagger": "2.0"\n')).toBe("openapi");
    expect(model.kindOf('{"info": {"a2s": 1}, "openapi": "3.1.0"}')).toBe("openapi");
    expect(model.kindOf('{"a2s": "1.1.0", "task": {"openapi": "3.1.0"}}')).toBe("document");
    expect(model.kindOf("a2s: 1.1.0\ntask:\n  openapi: 3.0.3\n")).toBe("document");
    expect(model.kindOf(model.EXAMPLE)).toBe("document");
});

test("the name and the checksum are those of the first level", () => {
    expect(model.nameOf(model.EXAMPLE)).toBe("ReadTideTable");
    expect(model.nameOf('{"authors": [{"name": "X"}], "name": "GetIt"}')).toBe("GetIt");
    expect(model.nameOf("name: <b>x</b>\n")).toBeUndefined();
    expect(["openapi: 3.0.3\n", "x", model.EXAMPLE].map(model.titleOf)).toEqual([
        "OpenAPI description",
        "Untitled",
        "ReadTideTable",
    ]);
    expect(model.hasChecksum(model.EXAMPLE)).toBe(false);
    expect(model.hasChecksum(`checksum: ${RIGHT} # right\n`)).toBe(true);
    expect(model.hasChecksum(`steps:\n  - checksum: ${RIGHT}\n`)).toBe(false);
});

test("a checksum is written where it belongs, and nothing else changes", () => {
    const line = `checksum: "${RIGHT}"`;
    expect(model.withChecksum(model.EXAMPLE, RIGHT)).toBe(
        model.EXAMPLE.replace('checksum: "<calculated_checksum>"', line),
    );
    expect(model.withChecksum('a: 1\nchecksum: "x" # why\nb: 2\n', RIGHT)).toBe(
        `a: 1\n${line} # why\nb: 2\n`,
    );
    expect(model.withChecksum("version: 1\nname: N\n", RIGHT)).toBe(`version: 1\n${line}\nname: N\n`);
    expect(model.withChecksum("name: N", RIGHT)).toBe(`name: N\n${line}\n`);
    expect(model.withChecksum("checksum:\nname: N\n", RIGHT)).toBe(`checksum: "${RIGHT}"\nname: N\n`);
    expect(model.withChecksum('{"t": {"checksum": "y"}, "checksum": "x"}', RIGHT)).toBe(
        `{"t": {"checksum": "y"}, "checksum": "${RIGHT}"}`,
    );
    expect(JSON.parse(model.withChecksum('{"name": "N"}', RIGHT))).toEqual({ checksum: RIGHT, name: "N" });
    expect(JSON.parse(model.withChecksum("{}", RIGHT))).toEqual({ checksum: RIGHT });
});

/** A registry that rejects each publication because of its checksum. */
function rejecting(sent: string[]): A2SRegistry {
    return new A2SRegistry("http://127.0.0.1:1", {
        token: "t",
        fetch: async (_, init) => {
            sent.push(new TextDecoder().decode(await new Response(init?.body ?? null).arrayBuffer()));
            const diagnostics = [
                {
                    code: "A2S030",
                    severity: "error",
                    message: `the right checksum is ${RIGHT}`,
                    path: "checksum",
                    line: 1,
                    column: 1,
                },
            ];
            return Response.json(
                { type: "", title: "", status: 422, code: "A2S210", detail: "1 error", diagnostics },
                { status: 422 },
            );
        },
    });
}

test("the registry states the checksum of YAML, and sees a placeholder alone", async () => {
    const sent: string[] = [];
    const stale = model.withChecksum(model.EXAMPLE, `sha256:${"0".repeat(64)}`);
    expect(await model.fillChecksum(rejecting(sent), stale)).toBe(model.withChecksum(model.EXAMPLE, RIGHT));
    expect(sent).toEqual([model.EXAMPLE]);
});

test("the SDK computes the checksum of JSON", async () => {
    const sent: string[] = [];
    const filled = await model.fillChecksum(rejecting(sent), '{"name": "N", "n": 1.50}');
    expect(JSON.parse(filled).checksum).toBe(await computeChecksum({ name: "N", n: 1.5 }));
    expect(sent).toEqual([]);
});

/** The storage of a browser. */
function storage() {
    const items = new Map<string, string>();
    return {
        getItem: (name: string) => items.get(name) ?? null,
        setItem: (name: string, text: string) => void items.set(name, text),
    };
}

test("drafts stay, and have names of their own", () => {
    const store = storage();
    expect([model.readDrafts(store), model.readPresent(store).text]).toEqual([[], ""]);
    let drafts = model.withDraft([], "A", "1", 1);
    drafts = model.withDraft(drafts, model.freeName(drafts, "A"), "2", 2);
    drafts = model.withDraft(drafts, "A", "3", 3);
    model.writeDrafts(store, drafts);
    model.writePresent(store, { text: "t", name: "A" });
    expect(model.readDrafts(store).map(({ name, text }) => [name, text])).toEqual([
        ["A", "3"],
        ["A 2", "2"],
    ]);
    expect(model.readPresent(store)).toEqual({ text: "t", name: "A" });
    expect(model.withoutDraft(drafts, "A")).toHaveLength(1);
});

test("what other programs stored under these names does no harm", () => {
    const store = storage();
    for (const text of ["{", "3", '[{"name": 1}, null]', '"x"']) {
        store.setItem("a2s.drafts", text);
        store.setItem("a2s.present", text);
        expect([model.readDrafts(store), model.readPresent(store).text]).toEqual([[], ""]);
    }
});

test("sizes are in bytes, and line breaks are those of a text field", () => {
    expect(model.sizeOf("é😀")).toBe(6);
    expect(model.normalizeBreaks("a\r\nb\rc\n")).toBe("a\nb\nc\n");
});
