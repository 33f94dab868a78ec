"""Measures a call of the SDK beside the same request with httpx alone.

Both send the same search to the same local server, in turns. The server responds at once with the bytes of a
recorded response, so what differs is the SDK.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import httpx

import a2s
from support import ROOT, Received, Reply, serve

ROUNDS, CALLS = 30, 50


def recorded(file: str, name: str) -> bytes:
    """Returns the body of a recorded response."""
    for case in json.loads((ROOT / "sdk/contract" / file).read_text(encoding="utf-8")):
        if case["name"] == name:
            return json.dumps(case["exchanges"][0]["response"]["body"]).encode()
    raise LookupError(name)


def seconds(call: Callable[[], object]) -> float:
    """Returns the mean time of a call."""
    begin = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - begin) / CALLS


def compare(label: str, plain: Callable[[], object], sdk: Callable[[], object]) -> None:
    """Prints the medians of both, and their ratio."""
    rounds = [(seconds(plain), seconds(sdk)) for _ in range(ROUNDS)]
    bare, full = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = statistics.median(pair[1] / pair[0] for pair in rounds)
    print(f"{label}: httpx {bare * 1e6:.0f} us, SDK {full * 1e6:.0f} us, ratio {ratio:.2f}")


def main() -> None:
    """Measures a search, and a document that is verified."""
    search = recorded("searches.json", "search/one intent")
    document = recorded("documents.json", "documents/a version")

    def respond(request: Received) -> Reply:
        return Reply(200, {"Content-Type": "application/json"}, search if request.body else document)

    body = {"intent": "list dog breeds"}
    with serve(respond) as url, a2s.A2SRegistry(url, "t") as registry, httpx.Client() as client:
        compare(
            "search",
            lambda: client.post(f"{url}/v1/search", json=body).json(),
            lambda: registry.search_capabilities("list dog breeds"),
        )
        compare(
            "verified document",
            lambda: client.get(f"{url}/v1/capabilities/GetJoke/1.0.0").json(),
            lambda: registry.get_capability("GetJoke", "1.0.0"),
        )


if __name__ == "__main__":
    main()
