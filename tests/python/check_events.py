"""Holds security events, one JSON object on each line of standard input, to the classes of OCSF.

Two sets of classes that others made are asked: one has every class of OCSF 1.5.0, checks types,
enumerations and `type_uid`, and keeps what it does not know, which is refused here; the other has
Detection Finding alone, as security scanners write it. Prints a line for each event: its class.
"""

import json
import sys

from ocsf.v1_5_0 import events, objects
from py_ocsf_models.events.findings.detection_finding import DetectionFinding
from pydantic import BaseModel

CLASSES = {2004: events.DetectionFinding, 6003: events.ApiActivity}

# What the profiles add to a class (`profiles/trace.json`, `profiles/security_control.json`).
PROFILES = {
    "trace": {"trace": objects.Trace.model_validate},
    "security_control": {
        "action": str,
        "action_id": {0, 1, 2, 3, 4, 99}.__contains__,
        "disposition": str,
        "disposition_id": (set(range(28)) | {99}).__contains__,
    },
}


# An enumeration of texts, which the classes take for one of numbers.
METHODS = {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}


def known(value, where, added=frozenset()):
    """Refuses attributes that no class has, at any depth."""
    if isinstance(value, BaseModel):
        unknown = set(value.model_extra or {}) - added
        if unknown:
            raise ValueError(f"{where} has {sorted(unknown)}, which OCSF does not know")
        for name in type(value).model_fields:
            if name != "unmapped":
                known(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, list):
        for item in value:
            known(item, where)


def check(event):
    method = event.get("http_request", {}).pop("http_method", "GET")
    if method not in METHODS:
        raise ValueError(f"{method} is no method that OCSF knows")
    number = event["class_uid"]
    model = CLASSES[number].model_validate(event)
    added = set()
    for profile in event["metadata"].get("profiles", []):
        for name, accepts in PROFILES[profile].items():
            if name in event:
                added.add(name)
                accepted = accepts(event[name])
                if accepted is False:
                    raise ValueError(f"{name} is {event[name]}")
                known(accepted, name)
    known(model, CLASSES[number].__name__, added)
    if number == 2004:
        DetectionFinding.model_validate(event)
    return f"{number} {event['type_uid']}"


for line in sys.stdin:
    print(check(json.loads(line)))
