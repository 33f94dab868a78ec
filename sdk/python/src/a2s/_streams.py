"""The types of what an operation gives one by one: iterators that can be closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Stream: TypeAlias = Generator[T, None, None]
AsyncStream: TypeAlias = AsyncGenerator[T, None]
