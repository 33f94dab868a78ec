/** The one client of the console: the SDK, with the session of the browser instead of a token. */
import { A2SRegistry } from "@a2s/core";
import { send } from "./connection.svelte";
import { readSession } from "./session.svelte";

export const registry = new A2SRegistry(location.origin, {
    // The SDK sends no cookies by itself.
    fetch: async (input, init) => {
        const response = await send(input, init);
        if (response.status === 401) {
            // The session has ended, or its token was revoked: the sign-in is shown.
            readSession().catch(() => undefined);
        }
        return response;
    },
});
