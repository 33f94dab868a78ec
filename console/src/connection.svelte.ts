/** Whether the server responds, as the requests of the page find out. */

const state = $state({ isLost: false });

/** Returns true when the last request had no response. */
export function isConnectionLost(): boolean {
    return state.isLost;
}

/** Sends a request with the session of the browser, and notes whether there is a response. */
export async function send(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    try {
        const response = await fetch(input, { ...init, credentials: "same-origin" });
        state.isLost = false;
        return response;
    } catch (error) {
        if (!init?.signal?.aborted) {
            state.isLost = true;
        }
        throw error;
    }
}
