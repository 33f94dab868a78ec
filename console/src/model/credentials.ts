/** Credentials for services, as a person enters them. Pure. */
import type { Credential, CredentialKind, CredentialUsers } from "@a2s/core";

/** The fields of the form, as texts. */
export interface CredentialFields {
    kind: CredentialKind;
    /** The key, the token, the password or the secret of the client. */
    value: string;
    user: string;
    place: string;
    clientId: string;
    refreshToken: string;
    tokenHosts: string;
}

/** Returns the credential of the fields. Empty fields that are optional are left out. */
export function credentialOf(fields: CredentialFields): Credential {
    const { kind, value, user, place, clientId, refreshToken, tokenHosts } = fields;
    switch (kind) {
        case "api_key":
            return { kind, value, ...(place.trim() ? { place: place.trim() } : {}) };
        case "basic":
            return { kind, user, password: value };
        case "bearer":
            return { kind, token: value };
        case "oauth2":
            return {
                kind,
                client_id: clientId,
                client_secret: value,
                ...(refreshToken ? { refresh_token: refreshToken } : {}),
                token_hosts: wordsOf(tokenHosts),
            };
    }
}

/** Returns the words of a list, which commas or spaces separate. */
export function wordsOf(text: string): string[] {
    return [...new Set(text.split(/[\s,]+/).filter((word) => word !== ""))];
}

/** Returns the grants of a credential in words. */
export function grantsOf(users: CredentialUsers | undefined): string[] {
    const { subjects = [], publishers = [], capabilities = [] } = users ?? {};
    return [
        ...subjects.map((subject) => (subject === "*" ? "everybody's" : `those of ${subject}`)),
        ...publishers.map((publisher) => `steps that ${publisher} published`),
        ...capabilities.map((capability) => `steps of ${capability}`),
    ];
}
