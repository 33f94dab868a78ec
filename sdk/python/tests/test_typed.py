"""A type checker knows the inputs and the outputs of the constants that `a2s types` writes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from service import Service, write_types
from support import ROOT

HEAD = """\
import asyncio
import a2s
import capabilities as c

get_country = a2s.bind_types(c.GetCountry, c.GetCountryInputs, c.GetCountryOutputs)
list_dog_breeds = a2s.bind_types(c.ListDogBreeds, c.ListDogBreedsInputs, c.ListDogBreedsOutputs)
registry = a2s.A2SRegistry()
executor = a2s.CapabilityExecutor(registry)
plan = registry.plan(get_country, {"country_code": "FR"}, preview=True)
dogs = registry.run(list_dog_breeds, {})
"""

GOOD = """
breed: str = dogs.output["breeds"][0]["attributes"]["name"]
print("typed:", breed, len(plan["steps"]))
begun = registry.run(list_dog_breeds, {}, wait=False)
print("waited:", len(begun.wait().output["breeds"]))
print("planned:", len(registry.plan(list_dog_breeds, {}).run().output["breeds"]))
print("executed:", len(executor.run(list_dog_breeds, lambda: {}).output["breeds"]))
print("verified:", registry.verify_checksum(get_country)["name"])


async def run_in_both_ways() -> None:
    async with a2s.AsyncA2SRegistry() as other:
        run = await other.run(list_dog_breeds, {})
        name: str = run.output["breeds"][0]["attributes"]["name"]
        planned = await (await other.plan(list_dog_breeds, {})).run()
        print("asynchronous:", name, len(planned.output["breeds"]))


asyncio.run(run_in_both_ways())


# What is not typed takes any inputs, and gives any output.
def use_without_types(plain: a2s.Plan, hits: a2s.SearchHits) -> a2s.Run:
    registry.run(hits[0]).output["anything"]
    registry.run(c.GetCountry, {"anything": 1}, session="breakfast")
    return plain.run()


use = use_without_types
"""

MISUSES = [
    'registry.run(get_country, {"country_code": []})',
    'registry.run(get_country, {"country": "FR"})',
    'registry.run(get_country, {"country_code": "FR", "continent": "EU"})',
    "registry.run(get_country, {})",
    "registry.run(get_country)",
    'registry.run(list_dog_breeds, {"limit": 1})',
    'registry.run(list_dog_breeds, {}, wait="yes")',
    "registry.run(get_country, c.ListDogBreedsInputs())",
    'registry.plan(get_country, {"country_code": None})',
    'registry.trigger({"type": "email", "id": "1"}, get_country, {})',
    "executor.run(get_country, {})",
    'dogs.output["cats"]',
    'dogs.output["breeds"][0]["attributes"]["size"]',
    'number: int = dogs.output["breeds"][0]["id"]',
    'plan.run().output["capitol"]',
    'a2s.AsyncA2SRegistry().run(get_country, {"country": "FR"}).close()',
]


@pytest.fixture(scope="module")
def folder(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the types of two capabilities."""
    path = tmp_path_factory.mktemp("typed")
    write_types(service, path / "capabilities.py")
    return path


def check(folder: Path, code: str) -> str:
    """Returns the messages of the type checker about a program."""
    (folder / "main.py").write_text(code, encoding="utf-8")
    environment = os.environ.get("A2S_SDK_ENV") or ROOT / "target/sdk-python"
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", f"{environment}/mypy-typed"]
    variables = {**os.environ, "MYPYPATH": str(ROOT / "sdk/python/src")}
    result = subprocess.run(
        [*command, "main.py"], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    return result.stdout + result.stderr


def test_a_program_that_uses_them_well_is_accepted_and_runs(folder: Path, service: Service) -> None:
    assert check(folder, HEAD + GOOD) == "Success: no issues found in 1 source file\n"
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "sdk/python/src"),
        "A2S_URL": service.url,
        "A2S_TOKEN": service.token,
    }
    result = subprocess.run(
        [sys.executable, "main.py"], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert result.stdout.splitlines() == [
        "typed: Akita 1",
        "waited: 1",
        "planned: 1",
        "executed: 1",
        "verified: GetCountry",
        "asynchronous: Akita 1",
    ], result.stderr


def test_each_misuse_is_refused(folder: Path) -> None:
    messages = check(folder, HEAD + "\n".join(MISUSES) + "\n")
    lines = {int(line) for line in re.findall(r"^main\.py:(\d+): error", messages, re.MULTILINE)}
    first = HEAD.count("\n") + 1
    assert sorted(lines) == [first + index for index in range(len(MISUSES))], messages
