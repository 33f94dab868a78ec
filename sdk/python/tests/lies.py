"""Texts of a document as a registry could serve them: other spellings, and other contents."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from support import Json


class Speller:
    """Writes JSON in one of the many ways that mean the same."""

    def __init__(self, random: random.Random) -> None:
        self._random = random

    def write(self, value: Json) -> str:
        space = self._space()
        return space + self._write(value) + self._space()

    def _space(self) -> str:
        return "".join(self._random.choices(" \n\t\r", k=self._random.choice((0, 0, 0, 1, 2))))

    def _write(self, value: Json) -> str:
        if isinstance(value, dict):
            names = list(value)
            self._random.shuffle(names)
            members = [self._string(n) + self._space() + ":" + self.write(value[n]) for n in names]
            return "{" + self._space() + (self._space() + ",").join(members) + "}"
        if isinstance(value, list):
            return "[" + self._space() + ",".join(self.write(item) for item in value) + "]"
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._number(value)
        return json.dumps(value)

    def _string(self, text: str) -> str:
        if self._random.random() < 0.7:
            return json.dumps(text, ensure_ascii=self._random.random() < 0.5)
        return '"' + "".join(self._character(c) for c in text) + '"'

    def _character(self, character: str) -> str:
        if self._random.random() < 0.5:
            return json.dumps(character)[1:-1]
        if character == "/":
            return "\\/"
        units = character.encode("utf-16-be")
        form = self._random.choice(("\\u{:04x}", "\\u{:04X}"))
        return "".join(form.format(int.from_bytes(units[i : i + 2], "big")) for i in range(0, len(units), 2))

    def _number(self, number: float) -> str:
        forms = [repr(number), f"{number:.17e}", f"{number:.17E}"]
        if number == int(number):
            forms += [f"{int(number)}.0", f"{int(number)}.000e0", f"{int(number) * 10}e-1"]
        return self._random.choice([form for form in forms if float(form) == number])


def places(value: Json) -> Iterator[tuple[Any, Any]]:
    """Gives every container of a value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def change(document: Json, random: random.Random) -> Json:
    """Returns the document with one other value somewhere."""
    changed = copy.deepcopy(document)
    container, key = random.choice([p for p in places(changed) if p[1] != "checksum"])
    value = container[key]
    actions: list[Callable[[], Any]] = [
        lambda: container.pop(key),
        lambda: container.__setitem__(key, [value]),
        lambda: container.__setitem__(key, None if value is not None else False),
    ]
    if isinstance(container, dict):
        actions += [
            lambda: container.__setitem__(key + " ", container.pop(key)),
            lambda: container.__setitem__("x" + str(random.random()), value),
        ]
    if isinstance(value, str):
        at = random.randrange(len(value) + 1)
        sign = random.choice("aZ0 \n\0é/\u0301\U0001f600\ufeff")
        actions += [lambda: container.__setitem__(key, value[:at] + sign + value[at:])] * 4
        actions += [lambda: container.__setitem__(key, value[:at] + value[at + 1 :] + "!")]
    elif isinstance(value, bool):
        actions += [
            lambda: container.__setitem__(key, int(value)),
            lambda: container.__setitem__(key, not value),
        ] * 3
    elif isinstance(value, (int, float)):
        actions += [lambda: container.__setitem__(key, value + random.choice((1, -1, 2**-20)))] * 3
        actions += [lambda: container.__setitem__(key, str(value))] * 2
    elif isinstance(value, list) and len(value) > 1:
        actions += [lambda: value.reverse()] * 4
    elif isinstance(value, dict):
        actions += [lambda: value.__setitem__("checksum", "x")] * 2
    random.choice(actions)()
    return changed


def break_text(text: str, random: random.Random) -> str:
    """Returns a text that two readers could understand in two ways, or that is cut."""
    at = text.index("{") + 1
    additions = [
        '"name":"Other",',
        '"\\u006eame":"Other",',
        '"z":"\\ud800",',
        '"z":1e999,',
        '"z":NaN,',
        '"z":1,',
    ]
    addition = random.choice(additions)
    return text[: len(text) // 2] if random.random() < 0.1 else text[:at] + addition + text[at:]


def same(left: Json, right: Json) -> bool:
    """Returns whether two values are the same JSON: a number is no boolean, and 1.0 is 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def content(document: Json) -> Json:
    return {name: value for name, value in document.items() if name != "checksum"}


def mutations(document: Json, count: int, seed: int) -> Iterator[tuple[bytes, bool]]:
    """Gives texts, and whether each has the content of the document."""
    chance = random.Random(seed)
    speller = Speller(chance)
    for _ in range(count):
        kind = chance.random()
        changed = change(document, chance) if kind < 0.5 else document
        text = speller.write(changed)
        if kind > 0.9:
            yield break_text(text, chance).encode(), False
        else:
            yield text.encode(), same(content(changed), content(document))
