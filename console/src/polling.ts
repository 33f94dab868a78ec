/** Does something now and then, while somebody looks at the page. */

/** Starts to do it, the first time after the interval; the returned function ends it. */
export function every(milliseconds: number, action: () => unknown): () => void {
    const timer = setInterval(() => document.hidden || action(), milliseconds);
    return () => clearInterval(timer);
}
