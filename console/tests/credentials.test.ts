import { expect, test } from "vitest";
import { type CredentialFields, credentialOf, grantsOf, wordsOf } from "../src/model/credentials";

const FIELDS: CredentialFields = {
    kind: "api_key",
    value: "v v",
    user: "u",
    place: "",
    clientId: "c",
    refreshToken: "",
    tokenHosts: "",
};

test("a credential has the members of its kind alone", () => {
    expect(credentialOf(FIELDS)).toEqual({ kind: "api_key", value: "v v" });
    expect(credentialOf({ ...FIELDS, place: " header:X " })).toEqual({
        kind: "api_key",
        value: "v v",
        place: "header:X",
    });
    expect(credentialOf({ ...FIELDS, kind: "basic" })).toEqual({ kind: "basic", user: "u", password: "v v" });
    expect(credentialOf({ ...FIELDS, kind: "bearer" })).toEqual({ kind: "bearer", token: "v v" });
    expect(credentialOf({ ...FIELDS, kind: "oauth2", tokenHosts: "a.example, b.example" })).toEqual({
        kind: "oauth2",
        client_id: "c",
        client_secret: "v v",
        token_hosts: ["a.example", "b.example"],
    });
});

test("a list has commas or spaces, and each word once", () => {
    expect(wordsOf(" a, b  a,,c ")).toEqual(["a", "b", "c"]);
});

test("grants are said in words", () => {
    expect(grantsOf(undefined)).toEqual([]);
    expect(grantsOf({ subjects: ["*", "ci/ann"], publishers: ["p"], capabilities: ["Get"] })).toEqual([
        "everybody's",
        "those of ci/ann",
        "steps that p published",
        "steps of Get",
    ]);
});
