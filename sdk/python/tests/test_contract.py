"""The contract of all SDKs, and a small example that proves the replay itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract import replay
from support import ROOT, Json

EXAMPLE = Path(__file__).parent / "data" / "contract.json"
RECORDED = sorted(p for p in (ROOT / "sdk" / "contract").glob("*.json") if p.name != "errors.json")


def cases(files: list[Path]) -> Iterator[tuple[str, Json]]:
    for file in files:
        for case in json.loads(file.read_text(encoding="utf-8")):
            yield f"{file.stem}/{case['name']}", case


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(("name", "case"), [pytest.param(n, c, id=n) for n, c in cases([EXAMPLE])])
def test_example(kind: str, name: str, case: Json) -> None:
    replay(kind, case)


@pytest.mark.contract
@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(("name", "case"), [pytest.param(n, c, id=n) for n, c in cases(RECORDED)])
def test_recorded(kind: str, name: str, case: Json) -> None:
    replay(kind, case)


@pytest.mark.parametrize(
    "change",
    [
        lambda case: case["exchanges"].pop(),
        lambda case: case["exchanges"].append(case["exchanges"][0]),
        lambda case: case["exchanges"][0]["request"].update(path="/v1/other"),
        lambda case: case["exchanges"][0]["request"].update(body={"intent": "other"}),
        lambda case: case["exchanges"][0]["request"]["headers"].update({"accept": None}),
        lambda case: case.update(result={}),
        lambda case: case.update(error={"class": "Denied"}),
    ],
)
def test_replay_finds_differences(change) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    case = json.loads(EXAMPLE.read_text(encoding="utf-8"))[0]
    change(case)
    with pytest.raises(AssertionError):
        replay("sync", case)
