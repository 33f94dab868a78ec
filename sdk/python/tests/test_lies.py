"""A registry that lies: the SDK refuses each change of the content, and accepts every other spelling."""

from __future__ import annotations

import json
from pathlib import Path

import a2s
from lies import mutations
from support import Driver, Received, Reply, serve

DOCUMENT = json.loads((Path(__file__).parent / "data/document.json").read_text(encoding="utf-8"))
# The document of the registry has no numbers, booleans and nulls besides those below.
RICH = {**DOCUMENT, "x": {"numbers": [0, 1, 2.5, 1e-7, -3, 9007199254740991], "flags": [True, False, None]}}


def test_a_thousand_mutations(kind: str) -> None:
    document = {**RICH, "checksum": a2s.compute_checksum(RICH)}
    hit = {name: document[name] for name in ("name", "version", "checksum")}
    served = b""

    def lie(received: Received) -> Reply:
        return Reply(200, {"Content-Type": "application/json"}, served)

    outcomes = {True: 0, False: 0}
    wrong: list[bytes] = []
    with serve(lie) as url, Driver(kind, url) as driver:
        for served, is_same in mutations(document, 1000, seed=8785):
            try:
                driver.call("verify_checksum", hit)
                accepted = True
            except (a2s.ChecksumMismatch, a2s.InvalidDocument):
                accepted = False
            outcomes[is_same] += 1
            if accepted != is_same:
                wrong.append(served)
    assert wrong == []
    # Both kinds of mutations are there.
    assert min(outcomes.values()) > 300


def test_the_document_itself_is_accepted(kind: str) -> None:
    served = json.dumps(DOCUMENT).encode()
    with serve(lambda _: Reply(200, {}, served)) as url, Driver(kind, url) as driver:
        assert (
            driver.call("verify_checksum", {"name": "GetJoke", "checksum": DOCUMENT["checksum"]}) == DOCUMENT
        )
