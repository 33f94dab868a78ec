"""Server-sent events, read line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import A2SError

# As large as a response: the last event of a run has its output.
MAX_EVENT = 64 * 1024 * 1024


@dataclass
class ServerSentEvent:
    """One event of a stream."""

    id: str | None
    event: str
    data: str

    @property
    def number(self) -> int:
        """The number of the event. Raises `A2SError` when it has none."""
        if self.id is None or not self.id.isdecimal():
            raise A2SError("an event of the stream has no number")
        return int(self.id)


class EventReader:
    """Turns the bytes of a stream into events.

    An event has at most 64 MiB.
    """

    def __init__(self) -> None:
        self.last_id: str | None = None
        self._rest: list[bytes] = []
        self._event = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Reads more bytes of the stream, and gives the events that they complete."""
        self._size += len(chunk)
        if self._size > MAX_EVENT:
            raise A2SError("an event of the stream is longer than 64 MiB")
        self._rest.append(chunk)
        # A long line comes in many parts, which are joined once.
        if b"\n" not in chunk and b"\r" not in chunk and not self._rest[0].endswith(b"\r"):
            return
        # The end of a line is a line feed, a carriage return, or both. A carriage return at the end
        # of the bytes waits for the next ones.
        text = b"".join(self._rest)
        waits = text.endswith(b"\r")
        lines = text[: len(text) - waits].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = [lines.pop() + b"\r" * waits]
        for line in lines:
            event = self._read_line(line.decode("utf-8", "replace"))
            if event:
                yield event

    def _read_line(self, line: str) -> ServerSentEvent | None:
        if not line:
            event = ServerSentEvent(self.last_id, self._event or "message", "\n".join(self._data))
            has_data = bool(self._data)
            self._event, self._data, self._size = "", [], 0
            return event if has_data else None
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        elif field == "id" and "\0" not in value:
            self.last_id = value
        return None
