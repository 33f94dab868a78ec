"""A real A2S on loopback, with the services of two shipped capabilities behind it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import a2s
from support import Received, Reply, program, reply_json, serve

POLICY = """
version: 1
default: allow
rules:
  - id: countries-need-a-person
    on: toolCallRequest
    tool: GetCountry.readCountry
    decision: approve
    message: A person approves each country.
    approval: {within: 10m}
  - id: no-tweets
    on: toolCallRequest
    tool: PostTweet.*
    decision: deny
    message: No tweets today.
"""
COUNTRY = {
    "name": "France",
    "native": "France",
    "capital": "Paris",
    "currency": "EUR",
    "phone": "33",
    "emoji": "FR",
    "continent": {"name": "Europe"},
    "languages": [{"name": "French"}],
}


def _services(request: Received) -> Reply:
    if request.path == "/api/v2/breeds":
        return reply_json({"data": [{"id": "1", "attributes": {"name": "Akita"}}]})
    if request.path == "/graphql":
        return reply_json({"data": {"country": COUNTRY}})
    return Reply(404)


@dataclass
class Service:
    url: str
    data: Path

    @property
    def token(self) -> str:
        return (self.data / "token").read_text().strip()

    def registry(self) -> a2s.A2SRegistry:
        return a2s.A2SRegistry(self.url, self.token, pause=lambda tried, retry_after: 0.05)

    def async_registry(self) -> a2s.AsyncA2SRegistry:
        return a2s.AsyncA2SRegistry(self.url, self.token, pause=lambda tried, retry_after: 0.05)


@contextmanager
def run_service(program: str, folder: Path) -> Iterator[Service]:
    """Starts the program, and stops it at the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    policy, data = folder / "policy.yaml", folder / "data"
    policy.write_text(POLICY)
    with serve(_services) as services, (folder / "log").open("wb") as log:
        command = [program, "up", "--listen", f"127.0.0.1:{port}", "--data-dir", str(data)]
        command += ["--policy", str(policy), "--embedder", "builtin-fast"]
        for host in ("dogapi.dog", "countries.trevorblades.com"):
            command += ["--upstream", f"{host}={services}"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _await_readiness(f"http://127.0.0.1:{port}", process, folder / "log")
            yield Service(f"http://127.0.0.1:{port}", data)
        finally:
            process.terminate()
            process.wait(30)


def _await_readiness(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    with a2s.A2SRegistry(url, "none", pause=lambda tried, retry_after: 0.1) as registry:
        for _ in range(300):
            try:
                registry.check_readiness()
                return
            except (a2s.Busy, a2s.NotReachable):
                assert process.poll() is None, log.read_text()
        raise AssertionError("the service did not become ready: " + log.read_text())


def write_types(service: Service, file: Path) -> None:
    """Writes the file of `a2s types` for two shipped capabilities."""
    command = [str(program()), "--url", service.url, "--data-dir", str(service.data), "types"]
    command += ["--lang", "python", "--output", str(file), "GetCountry", "ListDogBreeds"]
    subprocess.run(command, check=True, capture_output=True)
