"""Validates bills of materials, one JSON document on each line of standard input, strictly.

Prints `good`, or what is wrong, for each of them.
"""

import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

validator = JsonStrictValidator(SchemaVersion.V1_6)


def references(bom):
    """What the schema cannot say: each reference is there once, and leads somewhere."""
    parts = [bom["metadata"]["component"], *bom["components"], *bom["services"]]
    known = [part["bom-ref"] for part in parts]
    if len(known) != len(set(known)):
        return "a reference is there twice"
    for entry in bom["dependencies"]:
        for reference in [entry["ref"], *entry.get("dependsOn", [])]:
            if reference not in known:
                return f"{reference} leads nowhere"
    missing = set(known) - {entry["ref"] for entry in bom["dependencies"]}
    return f"nothing is said of what {sorted(missing)} use" if missing else None


for line in sys.stdin:
    found = validator.validate_str(line)
    print(found and f"{found}".replace("\n", " ")[:500] or references(json.loads(line)) or "good")
