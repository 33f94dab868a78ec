"""The line of the contract in the summary, and a fixture for both kinds of registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fake_a2s import FakeA2S
from service import Service, run_service
from support import program, serve
from worlds import World, new_loop


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "contract: a recorded case of the contract")


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    def count(outcome: str) -> int:
        reports = terminalreporter.stats.get(outcome, [])
        return sum("test_recorded" in r.nodeid for r in reports if getattr(r, "when", "call") == "call")

    passed, failed = count("passed"), count("failed")
    # Each case runs twice: synchronously and asynchronously.
    terminalreporter.write_line(f"contract: {passed // 2} of {(passed + failed) // 2}")


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    found = program()
    if found is None:
        pytest.skip("SKIPPED: A2S_TEST_BIN does not name the program")
    with run_service(found, tmp_path_factory.mktemp("a2s")) as running:
        yield running


@pytest.fixture
def world() -> Iterator[World]:
    fake = FakeA2S()
    with serve(fake) as url, new_loop() as loop:
        yield World(fake, url, loop)
