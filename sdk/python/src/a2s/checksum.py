"""The checksum of a document: SHA-256 over its canonical form (RFC 8785).

The functions refuse a text that two readers of JSON could understand in two ways: a name that occurs
twice, half of a surrogate pair, a number that no double can hold.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from .errors import InvalidDocument

__all__ = ["canonicalize", "compute_checksum", "parse_json"]

# Beyond this limit different integers are the same double, so documents cannot contain them.
_MAX_SAFE_INTEGER: Final = 2**53 - 1
# Documents have at most 64 levels; a canonical form may have more.
_DOCUMENT_DEPTH: Final = 64
_MAX_DEPTH: Final = 128
_CHECKSUM: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_ESCAPES: Final = {
    **{chr(code): f"\\u{code:04x}" for code in range(0x20)},
    **{"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"},
}
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\]')
_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def parse_json(text: bytes | str) -> Any:
    """Parses the JSON text of a document strictly. One byte order mark at its beginning is skipped.

    Raises `InvalidDocument` for what is not JSON in UTF-8, for a name that occurs twice in an object,
    for an unpaired surrogate, for a number outside of the range of IEEE 754 doubles, and for more
    than 64 levels.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(
            decoded.removeprefix("\ufeff"),
            object_pairs_hook=_read_object,
            parse_int=_read_integer,
            parse_float=_read_float,
            parse_constant=_refuse_constant,
        )
        _check(value, _DOCUMENT_DEPTH)
    except RecursionError:
        raise InvalidDocument("the JSON text has too many levels") from None
    except ValueError as error:
        raise InvalidDocument(f"the text is not strict JSON: {error}") from None
    return value


def canonicalize(value: Any) -> bytes:
    """Returns the canonical form of a JSON value (RFC 8785) in UTF-8.

    Raises `InvalidDocument` for a value that has no canonical form: NaN and the infinities, an
    integer that no double holds exactly, an unpaired surrogate, a name that is not a string, and
    more than 128 levels.
    """
    try:
        return _write(value, _MAX_DEPTH).encode("utf-8")
    except ValueError as error:
        raise InvalidDocument(f"the value has no canonical form: {error}") from None


def compute_checksum(document: Mapping[str, Any] | bytes | str) -> str:
    """Computes the checksum of a document, as `sha256:` and 64 hexadecimal digits.

    The document is an object, or a JSON text, which is then parsed strictly. Its member `checksum`
    does not count. Raises `InvalidDocument` for a document that cannot have a checksum.
    """
    value = parse_json(document) if isinstance(document, (bytes, str)) else document
    if isinstance(value, Mapping):
        value = {name: member for name, member in value.items() if name != "checksum"}
    _check_numbers(value, _DOCUMENT_DEPTH)
    return "sha256:" + hashlib.sha256(canonicalize(value)).hexdigest()


def normalize_checksum(text: object) -> str | None:
    """Returns a checksum with its prefix; none for what is not a checksum."""
    match = _CHECKSUM.fullmatch(text) if isinstance(text, str) else None
    return f"sha256:{match[1]}" if match else None


def _read_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) < len(members):
        raise ValueError("a name occurs twice in an object")
    return value


def _read_integer(text: str) -> int | float:
    # A safe integer has at most 16 digits; longer ones are never converted exactly.
    if len(text) <= 17 and abs(integer := int(text)) <= _MAX_SAFE_INTEGER:
        return integer
    return _read_float(text)


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is outside of the range of doubles")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _check(value: Any, levels: int) -> None:
    """Refuses half surrogate pairs and too many levels."""
    if levels == 0:
        raise ValueError("too many levels")
    if isinstance(value, str):
        if _LONE_SURROGATE.search(value):
            raise ValueError("half of a surrogate pair")
    elif isinstance(value, dict):
        for name, member in value.items():
            _check(name, levels)
            _check(member, levels - 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, levels - 1)


def _check_numbers(value: Any, levels: int) -> None:
    """Refuses the integral numbers that documents cannot contain."""
    if levels == 0:
        raise InvalidDocument("the document has too many levels")
    if isinstance(value, Mapping):
        for member in value.values():
            _check_numbers(member, levels - 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_numbers(item, levels - 1)
    elif isinstance(value, (int, float)) and abs(value) > _MAX_SAFE_INTEGER:
        raise InvalidDocument(f"the document contains a number beyond ±(2^53 - 1): {value!r:.40}")


def _write(value: Any, levels: int) -> str:
    if levels == 0:
        raise ValueError("too many levels")
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _write_string(value)
    if isinstance(value, (int, float)):
        return _write_number(value)
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise ValueError("a name is not a string")
        # Names are sorted by their UTF-16 code units.
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        members = (f"{_write_string(name)}:{_write(value[name], levels - 1)}" for name in names)
        return "{" + ",".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_write(item, levels - 1) for item in value) + "]"
    raise ValueError(f"{type(value).__name__} is not a type of JSON")


def _write_string(text: str) -> str:
    return '"' + _ESCAPED.sub(lambda match: _ESCAPES[match[0]], text) + '"'


def _write_number(number: int | float) -> str:
    """Writes a number like `Number::toString` of ECMAScript."""
    try:
        double = float(number)
    except OverflowError:
        double = math.inf
    if not math.isfinite(double) or double != number:
        raise ValueError("a number is not a double")
    if double == 0:
        return "0"
    sign = "-" if double < 0 else ""
    # `repr` gives the shortest digits; only the notation differs.
    mantissa, _, exponent = repr(abs(double)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    # The value is 0.DIGITS times ten to the power of `point`.
    point = int(exponent or 0) + len(whole) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        text = digits + "0" * (point - count)
    elif 0 < point < count:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        power = point - 1
        text = digits[0] + ("." + digits[1:] if count > 1 else "") + f"e{power:+d}"
    return sign + text
