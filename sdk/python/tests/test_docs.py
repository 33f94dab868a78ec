"""Every block of Python in the README and in the guide runs against the real program."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from service import run_service, write_types
from support import ROOT, program
from worlds import new_loop

PAGES = [ROOT / "sdk/python/README.md", ROOT / "docs/sdk-python.md"]
BLOCK = re.compile(r"^```python(?: adapter=(\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def scripted_model(adapter: str) -> Any:
    """A model that lists dog breeds, and then says that it is done."""
    name = "ListDogBreeds"
    question: dict[str, Any] = {}
    match adapter:
        case "openai_agents":
            from agents.testing import ScriptedModel, assistant_message, function_call

            return ScriptedModel([[function_call(name, question, call_id="1")], [assistant_message("done")]])
        case "langchain":
            from test_adapter_langchain import script

            return script((name, question))
        case "pydantic_ai":
            from pydantic_ai.models.function import FunctionModel

            from test_adapter_pydantic_ai import Script

            return FunctionModel(Script((name, question)))
        case "llama_index":
            from test_adapter_llama_index import scripted

            return scripted((name, question))[0]
        case "google_adk":
            from test_adapter_google_adk import ScriptedLlm

            return ScriptedLlm(model="scripted", calls=[(name, question)], offered=[])
    raise AssertionError(adapter)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    found = program()
    if found is None:
        pytest.skip("SKIPPED: A2S_TEST_BIN does not name the program")
    monkeypatch.setattr(builtins, "input", lambda prompt="": "yes")
    names: dict[str, Any] = {"__name__": "page"}
    blocks = list(BLOCK.finditer(page.read_text(encoding="utf-8")))
    assert len(blocks) == page.read_text(encoding="utf-8").count("```python")
    with run_service(found, tmp_path) as service, new_loop() as loop:
        monkeypatch.setenv("A2S_URL", service.url)
        monkeypatch.setenv("A2S_DATA_DIR", str(service.data))
        monkeypatch.syspath_prepend(str(tmp_path))
        write_types(service, tmp_path / "capabilities.py")
        for block in blocks:
            adapter, code = block.groups()
            if adapter:
                names["model"] = scripted_model(adapter)
            compiled = compile(code, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(compiled, names)
            if inspect.isawaitable(result):
                loop.run_until_complete(result)
    printed = capsys.readouterr().out
    # What the blocks print shows that they did what they say.
    for expected in {"README": ["Akita"], "sdk-python": ["Akita", "Paris", "execute", "done"]}[page.stem]:
        assert expected in printed


def test_every_method_is_documented() -> None:
    import a2s

    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    surface = [name for name in vars(a2s.A2SRegistry) if not name.startswith("_")]
    known = re.compile(
        r"(secret|state|token|outcome|trust|host|audit|health|readiness|ask_agent|sleep|url|close)"
    )
    assert [name for name in surface if f"`{name}" not in text and not known.search(name)] == []
