"""Runs in an empty environment with the built wheel: the package imports, and does its work."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files

import a2s

DOCUMENT = {"a2s": "1.0.0", "name": "Greet", "version": "1.0.0", "execution": {}}
DOCUMENT["checksum"] = a2s.compute_checksum(DOCUMENT)


class Handler(BaseHTTPRequestHandler):
    """Serves one document."""

    def do_GET(self) -> None:
        """Responds."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(DOCUMENT).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


async def fetch(url: str) -> object:
    """Fetches the document in the asynchronous way."""
    async with a2s.AsyncA2SRegistry(url, "t") as registry:
        return await registry.get_capability("Greet")


def main() -> None:
    """Fetches and verifies a document in both ways."""
    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with a2s.A2SRegistry(url, "t") as registry:
        assert registry.get_capability("Greet") == DOCUMENT
    assert asyncio.run(fetch(url)) == DOCUMENT
    assert files("a2s").joinpath("py.typed").is_file()
    assert a2s.types.SearchHit.__required_keys__ > {"name", "checksum"}
    assert "strategy" in a2s.types.SearchRequest.__optional_keys__
    needed = {line.split()[0] for line in importlib.metadata.requires("a2s-sdk") or () if "extra" not in line}
    wheel, python = importlib.metadata.version("a2s-sdk"), sys.version.split()[0]
    print(f"wheel {wheel} on Python {python}: works, needs {needed}")


main()
