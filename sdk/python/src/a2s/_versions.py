"""The rules for versions, names and words: a document must be the one that was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from .errors import Drifted

_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")
_COMPARATOR: Final = re.compile(
    r"\s*(=|>=|<=|>|<|~|\^|)\s*(\d+|[*xX])(?:\.(\d+|[*xX]))?(?:\.(\d+|[*xX]))?"
    r"(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?\s*"
)


def full_version(version: str) -> str:
    """Returns a version with three parts: documents may write `1.0` for `1.0.0`."""
    core = re.match(r"[0-9.]*", version)
    numbers = core[0] if core else ""
    return numbers + ".0" * max(0, 2 - numbers.count(".") if numbers else 0) + version[len(numbers) :]


def satisfies(version: str, wanted: str | None) -> bool:
    """Returns whether a version is the wanted one, or in the wanted range.

    Nothing, `latest` and `*` want any version; three numbers exactly this one; all else is a range of
    semantic versions, such as `^1.2`, `1.2` (the same), `~1.2.3`, `1.*` or `>=1, <3`.
    """
    version = full_version(version)
    if wanted in (None, "", "latest", "*"):
        return True
    if _VERSION.fullmatch(str(wanted)):
        return version == wanted
    parts = _VERSION.fullmatch(version)
    comparators = [_COMPARATOR.fullmatch(part) for part in str(wanted).split(",")]
    if parts is None or not all(comparators):
        return False
    found = _Version(int(parts[1]), int(parts[2]), int(parts[3]), parts[4] or "")
    rules = [_Comparator.of(match) for match in comparators if match]
    # A preliminary version must be meant.
    is_meant = not found.pre or any(rule.pre and rule.numbers == found[:3] for rule in rules)
    return is_meant and all(rule.accepts(found) for rule in rules)


class _Version(NamedTuple):
    major: int
    minor: int
    patch: int
    pre: str


class _Comparator(NamedTuple):
    sign: str
    numbers: tuple[int, ...]
    pre: str

    @staticmethod
    def of(match: re.Match[str]) -> _Comparator:
        given = [part for part in match.groups()[1:4] if part is not None]
        wild = next((i for i, part in enumerate(given) if not part.isdigit()), len(given))
        sign = match[1] or ("^" if wild == len(given) else "=")
        return _Comparator(sign, tuple(int(part) for part in given[:wild]), match[5] or "")

    def accepts(self, found: _Version) -> bool:
        numbers, size = self.numbers, len(self.numbers)
        same = found[:size] == numbers
        pre = (_order_of(found.pre) > _order_of(self.pre)) - (_order_of(found.pre) < _order_of(self.pre))
        if size < 3:
            pre = 0
        if self.sign == "=":
            return same and pre == 0
        if self.sign in (">", ">="):
            is_more = found[:size] > numbers or (same and size == 3 and pre > 0)
            return is_more or (self.sign == ">=" and same and pre == 0)
        if self.sign in ("<", "<="):
            is_less = found[:size] < numbers or (same and size == 3 and pre < 0)
            return is_less or (self.sign == "<=" and same and pre == 0)
        # `~` fixes the second number, `^` all up to the first that is not 0.
        if self.sign == "~":
            fixed = min(size, 2)
        else:
            fixed = next((i + 1 for i, number in enumerate(numbers) if number > 0), size)
        if found[:fixed] != numbers[:fixed]:
            return False
        return found[:size] > numbers or (same and pre >= 0)


def _order_of(pre: str) -> tuple[Any, ...]:
    """Returns the rank of a preliminary version: numbers before words, and a version without one last."""
    if not pre:
        return ((2, 0, ""),)
    parts = pre.split(".")
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def check_version(document: Mapping[str, Any], name: str, wanted: str | None) -> None:
    """Raises `Drifted` for the document of another capability, or of another version than the wanted."""
    found = document.get("name"), document.get("version")
    if found[0] != name:
        raise Drifted(f"the registry has served the document of {found[0]!r:.100}, not of {name!r}")
    if not isinstance(found[1], str) or not satisfies(found[1], wanted):
        raise Drifted(f"the registry has served the version {found[1]!r:.40} of {name}, not {wanted}")


def compare_with_hit(hit: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    """Raises `Drifted` when a hit says something else than its document.

    People and models choose by the words of a hit. The checksum binds only the document.
    """
    differences: list[str] = []
    if "description" in hit and hit["description"] != document.get("description"):
        differences.append(f"description: {hit['description']!r} became {document.get('description')!r}")
    if isinstance(hit.get("required_permissions"), list):
        for permission in document.get("permissions") or []:
            if permission not in hit["required_permissions"]:
                differences.append(f"permissions: {permission!r} is missing in the hit")
    if isinstance(hit.get("parameters"), list):
        said = sorted(str(parameter["name"]) for parameter in hit["parameters"])
        real = sorted(str(parameter["name"]) for parameter in document.get("parameters") or [])
        if said != real:
            differences.append(f"parameters: {', '.join(said)} became {', '.join(real)}")
    if differences:
        raise Drifted(
            f"the registry says something else about {document.get('name')} than its document does",
            hint="Do not run it. Ask the owner of the registry why it describes another capability.",
            problem={"differences": differences},
        )
