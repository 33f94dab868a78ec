"""Validates an OpenAPI document from standard input by openapi-spec-validator."""

import json
import sys

from openapi_spec_validator import validate

validate(json.load(sys.stdin))
print("openapi-spec-validator: valid")
