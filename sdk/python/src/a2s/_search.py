"""The results of a search: lists of hits that know more than the hits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ._request import read_list
from .types import NearMiss, SearchHit, SearchMetadata, ServiceHit


class SearchHits(list[SearchHit]):
    """The hits of a search, best first."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        super().__init__(read_list(response, "capabilities"))
        self.metadata = cast("SearchMetadata", response.get("metadata") or {})
        """The number of matches, the strategy, and remarks."""
        self.next: str | None = response.get("next")
        """The `cursor` of the following page; none on the last one."""

    @property
    def nearest(self) -> list[NearMiss]:
        """The nearest capabilities when nothing fits. Do not run them unread."""
        return self.metadata.get("nearest", [])


class ServiceHits(list[ServiceHit]):
    """The services of a search, best first."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        super().__init__(read_list(response, "services"))
        self.metadata = cast("SearchMetadata", response.get("metadata") or {})
        """The number of matches, and remarks."""
