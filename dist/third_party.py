"""Collects the licences of the crates that are built into the program."""

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "THIRD-PARTY-LICENSES.txt"
FILES = re.compile(r"(un)?licen[cs]e|copying|notice|copyright", re.IGNORECASE)
RULE = "=" * 100


def built_in(metadata):
    """Returns the packages that the program is built of, without those of this workspace."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    packages = {package["id"]: package for package in metadata["packages"]}
    waiting = [metadata["resolve"]["root"]]
    seen = set(waiting)
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    found = [packages[name] for name in seen if packages[name]["source"]]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def read_texts(package):
    """Returns the texts of licences and notices that a package has, each once."""
    folder = Path(package["manifest_path"]).parent
    paths = sorted(path for path in folder.iterdir() if path.is_file() and FILES.match(path.name))
    texts = [path.read_text(errors="replace").strip() for path in paths]
    return list(dict.fromkeys(text for text in texts if text))


def collect(target):
    """Returns the licences for a target, as the text of one file."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    packages = built_in(json.loads(done.stdout))
    holders = {}
    lines = ["a2s contains the packages of others below. The texts of their licences follow.", ""]
    for package in packages:
        name = f"{package['name']} {package['version']}"
        address = package["repository"] or package["homepage"] or ""
        lines.append(f"{name}: {package['license'] or 'see its text'} {address}".rstrip())
        for text in read_texts(package):
            holders.setdefault(text, []).append(name)
    for text, names in holders.items():
        lines += ["", RULE, ", ".join(names), RULE, "", text]
    # The model has a notice of its own.
    for notice in sorted(ROOT.glob("*/data/NOTICE*")):
        lines += ["", RULE, str(notice.relative_to(ROOT)), RULE, "", notice.read_text().strip()]
    return ("\n".join(lines) + "\n").encode()
