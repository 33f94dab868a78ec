/** Results of searches. */
import { A2SError } from "./errors.js";
import type { NearMiss, SearchHit, SearchMetadata, SearchResponse } from "./types.js";

/** The capabilities that fit an intent, best first: a list, with what the registry says about the search. */
export class SearchResult extends Array<SearchHit> {
    /** The nearest capabilities when nothing fits. Read them before you run one. */
    nearest: NearMiss[] = [];
    /** What the registry says about the search. */
    metadata!: SearchMetadata;
    /** The cursor of the next page, if there is one. */
    next: string | undefined;

    /** Methods such as `map` return ordinary arrays. */
    static override get [Symbol.species](): ArrayConstructor {
        return Array;
    }

    /** Returns the result of a response. */
    static fromResponse(response: SearchResponse): SearchResult {
        // Without a checksum, a run of a hit would accept any content.
        if (!response.capabilities.every(({ version, checksum }) => version && checksum)) {
            throw new A2SError("the response has a hit without a version or a checksum");
        }
        const result = new SearchResult();
        result.push(...response.capabilities);
        result.nearest = response.metadata.nearest ?? [];
        result.metadata = response.metadata;
        result.next = response.next ?? undefined;
        return result;
    }
}
