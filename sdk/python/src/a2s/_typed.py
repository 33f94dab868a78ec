"""Capabilities whose inputs and outputs a type checker knows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeAlias

if sys.version_info >= (3, 13):
    from typing import TypeVar
else:
    from typing_extensions import TypeVar

Inputs = TypeVar("Inputs", bound=Mapping[str, Any])
Output = TypeVar("Output", default=Any)

# A type checker reads the type variable from the capability before it looks at such an argument. So the
# literal of a dictionary gets the type of the inputs.
InputsFor: TypeAlias = Inputs | Callable[[], Inputs]
"""The inputs of a typed capability, or a function that returns them."""


class TypedCapability(Protocol[Inputs, Output]):
    """A version of a capability, its checksum, and the types of its inputs and outputs."""

    name: str
    version: str
    checksum: str
    inputs: type[Inputs]
    outputs: type[Output]


class _TypedReference(Generic[Inputs, Output]):
    def __init__(
        self, name: str, version: str, checksum: str, inputs: type[Inputs], outputs: type[Output]
    ) -> None:
        self.name = name
        self.version = version
        self.checksum = checksum
        self.inputs = inputs
        self.outputs = outputs


def bind_types(
    reference: Mapping[str, Any], inputs: type[Inputs], outputs: type[Output]
) -> TypedCapability[Inputs, Output]:
    """Returns a constant of `a2s types` together with the types of its inputs and outputs."""
    return _TypedReference(reference["name"], reference["version"], reference["checksum"], inputs, outputs)
