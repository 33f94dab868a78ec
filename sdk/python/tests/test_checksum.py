"""Checksums: the vectors of the registry, those of RFC 8785, and properties."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import a2s
from a2s.checksum import parse_json
from support import ROOT, Json

VECTORS = json.loads((ROOT / "tests/fixtures/checksum/vectors.json").read_text(encoding="utf-8"))
JCS = json.loads((Path(__file__).parent / "data/jcs.json").read_text(encoding="utf-8"))["vectors"]


def is_json(text: str) -> bool:
    """A document is JSON if it begins with a brace and is a JSON value; YAML is not read here."""
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return False
    return text.removeprefix("\ufeff").lstrip().startswith("{")


def named(vectors: list[Json]) -> list[Any]:
    return [pytest.param(vector, id=vector["name"]) for vector in vectors]


@pytest.mark.parametrize("vector", named([v for v in VECTORS if "canonical" in v]))
def test_vector(vector: Json) -> None:
    canonical = vector["canonical"].encode()
    # What the registry serves is JSON; the canonical form is one such text.
    value = parse_json(canonical)
    assert a2s.canonicalize(value) == canonical
    assert "sha256:" + hashlib.sha256(canonical).hexdigest() == vector["digest"]
    assert a2s.compute_checksum(value) == vector["digest"]
    if is_json(vector["document"]):
        assert a2s.compute_checksum(vector["document"]) == vector["digest"]


@pytest.mark.parametrize("vector", named([v for v in VECTORS if "refused" in v and is_json(v["document"])]))
def test_refused_vector(vector: Json) -> None:
    with pytest.raises(a2s.InvalidDocument):
        a2s.compute_checksum(vector["document"])


@pytest.mark.parametrize("vector", named(JCS))
def test_rfc_8785(vector: Json) -> None:
    value = parse_json(vector["input"])
    assert a2s.canonicalize(value) == vector["output"].encode()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (5e-324, "5e-324"),
        (-333333333.33333329, "-333333333.3333333"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2.9514790517935283e20, "295147905179352830000"),
    ],
)
def test_numbers_of_ecmascript(number: float, text: str) -> None:
    assert a2s.canonicalize(number) == text.encode()


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":2}',
        '{"a":"\\ud83d"}',
        '{"\\udc00":1}',
        '{"a":1e400}',
        '{"a":-1e400}',
        '{"a":' + "9" * 400 + "}",
        '{"a":NaN}',
        '{"a":Infinity}',
        '{"a":1} x',
        "[" * 100_000,
        "[" * 200 + "]" * 200,
        "",
        b"\xff",
        b'\xef\xbb\xbf\xef\xbb\xbf{"a":1}',
    ],
)
def test_strict_parsing(text: str | bytes) -> None:
    with pytest.raises(a2s.InvalidDocument):
        parse_json(text)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, {"a": {1, 2}}, {1: 2}, "\ud800", {"\ud800": 1}, 2**53 + 1, 10**400]
)
def test_values_without_canonical_form(value: Any) -> None:
    with pytest.raises(a2s.InvalidDocument):
        a2s.canonicalize(value)


def test_numbers_that_documents_cannot_contain() -> None:
    assert a2s.compute_checksum({"a": 2**53 - 1}).startswith("sha256:")
    for text in (
        '{"a":9007199254740992}',
        '{"a":1e16}',
        '{"a":9007199254740993}',
        '{"a":-9007199254740992.0}',
    ):
        with pytest.raises(a2s.InvalidDocument):
            a2s.compute_checksum(text)


def test_only_the_checksum_at_the_top_does_not_count() -> None:
    assert a2s.compute_checksum({"a": 1, "checksum": "x"}) == a2s.compute_checksum({"a": 1})
    nested = [a2s.compute_checksum({"a": {"checksum": value}}) for value in ("x", "y")]
    assert nested[0] != nested[1]


def test_shipped_checksums() -> None:
    """The page about checksums has an example with its result."""
    document = {
        "version": "1.0",
        "name": "SayHello",
        "tags": ["b", "a", "b"],
        "limits": {"minutes": 2.50, "calls": 16, "none": None},
        "200": "é\n€",
    }
    expected = "sha256:d4e0d62de54918d539d2ce317c072509c6bdb4c8a64a77013ac66f219b65f752"
    assert a2s.compute_checksum(document) == expected


NUMBERS = st.integers(-(2**53 - 1), 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(VALUES)
def test_canonical_form_is_a_fixed_point(value: Any) -> None:
    canonical = a2s.canonicalize(value)
    parsed = parse_json(canonical)
    assert parsed == value
    assert a2s.canonicalize(parsed) == canonical


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=4), st.randoms(use_true_random=False))
def test_order_and_white_space_do_not_matter(value: dict[str, Any], random: Any) -> None:
    names = list(value)
    random.shuffle(names)
    text = json.dumps({name: value[name] for name in names}, indent=random.choice([None, 2]))
    assert a2s.canonicalize(parse_json(text)) == a2s.canonicalize(value)
