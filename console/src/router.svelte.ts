/** The address of the page, and the way to another one. Each state that a person would send is in it. */

export interface Route {
    path: string;
    query: URLSearchParams;
}

function read(): Route {
    return { path: location.pathname, query: new URLSearchParams(location.search) };
}

let current = $state.raw(read());

addEventListener("popstate", () => {
    current = read();
});

/** Returns the present route. */
export function route(): Route {
    return current;
}

/** Shows another page of the console. */
export function go(address: string, replace = false): void {
    history[replace ? "replaceState" : "pushState"](null, "", address);
    current = read();
    if (!replace) {
        scrollTo(0, 0);
    }
}

/** Changes parameters of the present page; empty ones are left out. */
export function setQuery(changes: Record<string, string | undefined>): void {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
        if (value) {
            query.set(name, value);
        } else {
            query.delete(name);
        }
    }
    const text = query.toString();
    const address = text ? `${location.pathname}?${text}` : location.pathname;
    // An effect that states what is in the address already must not begin anew for it.
    if (address !== location.pathname + location.search) {
        go(address, true);
    }
}

const SERVED_BY_OTHERS = /^\/(v1|docs|errors|openapi\.json|metrics|llms\.txt)(\/|$)/;

/** Follows links between pages of the console without a new load. */
export function followLinks(event: MouseEvent): void {
    const link = (event.target as Element | null)?.closest?.("a[href]");
    const isPlain =
        event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!(link instanceof HTMLAnchorElement) || !isPlain || link.target || link.origin !== location.origin) {
        return;
    }
    if (!SERVED_BY_OTHERS.test(link.pathname)) {
        event.preventDefault();
        go(link.pathname + link.search + link.hash);
    }
}
