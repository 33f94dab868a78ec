/** Who is signed in, and what the token of the session may do. */

import { send } from "./connection.svelte";

export type Scope = "publish" | "execute" | "admin";

export interface Session {
    subject: string;
    scopes: string[];
    expires_at?: string;
}

/** Null: nobody is signed in. Undefined: not known yet. */
const state = $state<{ session: Session | null | undefined }>({ session: undefined });

/** Returns the session of this browser. */
export function session(): Session | null | undefined {
    return state.session;
}

/** Returns true when the session may do this. What it may not do is not offered. */
export function can(scope: Scope): boolean {
    return state.session?.scopes.includes(scope) ?? false;
}

async function call(method: string, body?: object): Promise<Response> {
    const init: RequestInit = { method, headers: { accept: "application/json" } };
    if (body !== undefined) {
        init.body = JSON.stringify(body);
        init.headers = { ...init.headers, "content-type": "application/json" };
    }
    return send("/session", init);
}

/** Reads the session from the server. Fails when the server does not respond. */
export async function readSession(): Promise<void> {
    const response = await call("GET");
    // 204 when nobody is signed in.
    state.session = response.status === 200 ? await response.json() : null;
}

/** Signs in with the code of a link, or with a token. Fails with the words of the server. */
export async function signIn(means: { code: string } | { token: string }): Promise<void> {
    const response = await call("POST", means);
    const answer = await response.json();
    if (!response.ok) {
        throw new Error(answer.detail ?? answer.title ?? `the server answered ${response.status}`);
    }
    state.session = answer;
}

/** Ends the session of this browser. */
export async function signOut(): Promise<void> {
    await call("DELETE");
    state.session = null;
}
