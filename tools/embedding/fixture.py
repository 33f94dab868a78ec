"""What the reference tokenizer and this table say about some texts, for the tests of the Rust reader.

    python fixture.py --sources DIR --table ../../registry/data/embedding.a2se \\
        --out ../../registry/data/embedding.fixture.json
"""

import argparse
import json
import random
from pathlib import Path

from table import Static
from teacher import Teacher

TEXTS = [
    "",
    " \t\r\n ",
    "pooch kinds",
    "List Dog Breeds",
    "ListDogBreeds retrieves a list of DOG breeds!",
    "How many euros do I get for $100.50 (today)?",
    "GET /v1/users/{user_id}/keys?limit=10&sort=-created_at",
    '{"name": "getURLsByTag", "args": [1, 2.5, null]}',
    "e-mail: someone@example.com; see https://api.example.com:8443/a_b#c",
    "don't can't o'clock rock'n'roll",
    "antidisestablishmentarianism hyperparameterization",
    "a" * 100,
    "a" * 101,
    "ab " * 300,
    "x" * 99 + "\u00e9",
    "caf\u00e9 na\u00efve \u00c5ngstr\u00f6m \u0141\u00f3d\u017a S\u00e3o Paulo",
    "cafe\u0301 and cafe\u0323\u0301",
    "\u0130stanbul \u0131\u015f\u0131k STRASSE stra\u00dfe \u1e9e",
    "\u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3 \u03bf\u03b4\u03bf\u03c2",
    "\u041f\u043e\u0433\u043e\u0434\u0430 \u0432 \u041c\u043e\u0441\u043a\u0432\u0435 \u0439\u043e\u0434",
    "Th\u1eddi ti\u1ebft \u1edf H\u00e0 N\u1ed9i",
    "\u5317\u4eac\u7684\u5929\u6c14weather\u9884\u62a5",
    "\u6771\u4eac\u306e\u5929\u6c17\u3092\u6559\u3048\u3066\u304f\u3060\u3055\u3044\u3002",
    "\uc11c\uc6b8 \ub0a0\uc528 \uc5b4\ub54c\uc694?",
    "\u0926\u093f\u0932\u094d\u0932\u0940 \u0915\u093e \u092e\u094c\u0938\u092e",
    "\u0637\u0642\u0633 \u0627\u0644\u0642\u0627\u0647\u0631\u0629\u061f \u05de\u05d6\u05d2 \u05d0\u05d5\u05d9\u05e8",
    "\u2018quoted\u2019 \u201ctext\u201d \u2014 dash\u2026 \u00bfqu\u00e9? \u00a1hola!",
    "\u20ac5 \u00a37 \u00a59 25\u00b0C 10\u00b2 \u00bd \u2116 \u2122",
    "zero\u200bwidth soft\u00adhyphen joiner\u200d non\u00a0breaking ideographic\u3000space",
    "bell\u0007 null\u0000 replaced\ufffd vertical\u000btab next\u0085line line\u2028end",
    "\ufb01ne \u01c6 \u2167 \uff21\uff22\uff23 \u210c \u00aa",
    "\U0001f415 dog \U0001f468\u200d\U0001f469\u200d\U0001f467 family \U0001f1eb\U0001f1f7",
    "## ##ing #hash ##",
    "C++ C# F# .NET node.js v2.0.1-rc.1+build.7",
    "tab\tseparated\nlines\r\nhere",
    "_under_score_ __dunder__ *bold* ~tilde~ `tick` ^caret^ |pipe| <tag/> \\back\\",
    "MiXeD CaSe WoRdS AND SHOUTING",
    "upload JSON to a webhook, unsubscribing endpoints' subscribers",
    "3.14159 1,000,000 0x1F 1e-9 42nd 007",
]
PAIRS = [
    ("pooch kinds", "List Dog Breeds Retrieve a list of dog breeds"),
    ("capital city of a nation", "Get Country Info Name, capital and currency of a country"),
    ("will it rain tomorrow", "Get River Level Water level of a river"),
    ("caf\u00e9", "coffee shop"),
    ("a", "an entirely different and much longer sentence about rivers, banks and money"),
]
ALPHABETS = [
    (0x21, 0x7F), (0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x780),
    (0x900, 0xE00), (0x1E00, 0x2070), (0x2070, 0x2C00), (0x3000, 0x3100), (0x4E00, 0x4F00), (0xAC00, 0xAD00),
    (0x1F300, 0x1F700),
]  # fmt: skip


def draw_texts(count: int) -> list[str]:
    """Strings of characters from all over Unicode, half of them plain ASCII words in between."""
    rng = random.Random(7)
    words = " ".join(TEXTS[2:11]).split()
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 12)):
            low, high = rng.choice(ALPHABETS)
            mixed = "".join(chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 6)))
            parts.append(rng.choice([rng.choice(words), mixed, mixed + rng.choice(words)]))
        texts.append(rng.choice(["", " "]).join(parts))
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--drawn", type=int, default=60, help="number of drawn strings")
    args = parser.parse_args()
    static = Static.load(Teacher(args.sources).tokenizer, args.table)
    lines = []
    for text in TEXTS + draw_texts(args.drawn):
        pieces = static.tokenizer.encode(text, add_special_tokens=False).tokens[:512]
        lines.append(json.dumps({"text": text, "pieces": pieces}))
    pairs = []
    for a, b in PAIRS:
        x, y = static.encode([a, b])
        pairs.append(json.dumps({"a": a, "b": b, "cosine": round(float(x @ y), 5)}))
    body = '{"texts": [\n' + ",\n".join(lines) + '\n],\n"pairs": [\n' + ",\n".join(pairs) + "\n]}\n"
    args.out.write_text(body, encoding="utf-8")


if __name__ == "__main__":
    main()
