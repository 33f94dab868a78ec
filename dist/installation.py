"""Installs packages of one folder, as `test` and `first-run` do it."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent


def run(*command, code=0, **options):
    """Runs a command that has to end with `code`, and returns all that it prints."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
        **options,
    )
    if done.returncode != code:
        raise AssertionError(f"{command} ended with {done.returncode}, not {code}:\n{done.stdout}")
    return done.stdout


def clear_environment():
    """Removes settings of the caller, which must not reach the installed programs and install.sh."""
    for name in [name for name in os.environ if name.startswith("A2S_") or name == "PREFIX"]:
        del os.environ[name]


def read_version(output):
    """Returns the version of the packages, from the name of @a2s/cli."""
    (package,) = [path for path in output.iterdir() if re.match(r"a2s-cli-\d", path.name)]
    return package.name.removeprefix("a2s-cli-").removesuffix(".tgz")


def describe_package(path, address):
    """Returns the name and the entry of an npm package, as a registry has them."""
    with tarfile.open(path) as archive:
        description = json.load(archive.extractfile("package/package.json"))
    integrity = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    description["dist"] = {"tarball": f"{address}/{path.name}", "integrity": f"sha512-{integrity}"}
    return description["name"], {
        "name": description["name"],
        "dist-tags": {"latest": description["version"]},
        "versions": {description["version"]: description},
    }


class Handler(SimpleHTTPRequestHandler):
    """Serves files, and the npm packages among them as an npm registry does."""

    packages = {}

    def do_GET(self):
        """Responds with a file, or with the versions of an npm package."""
        package = self.packages.get(unquote(urlsplit(self.path).path).lstrip("/"))
        if package is None:
            super().do_GET()
            return
        body = json.dumps(package).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Prints nothing: the output is for results."""


@contextmanager
def serve(folder):
    """Serves a folder on loopback, and gives its address."""
    handler = type("FolderHandler", (Handler,), {"packages": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder)) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        handler.packages.update(describe_package(path, address) for path in folder.glob("*.tgz"))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield address
        server.shutdown()


def make_venv(folder):
    """Makes an empty virtual environment, and returns the folder of its commands."""
    run(sys.executable, "-m", "venv", folder)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def install_wheel(commands, output):
    """Installs a2s-cli; pip chooses the wheel for this machine. No registry is asked."""
    pip = [commands / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "--no-index", "--find-links", output, f"a2s-cli=={read_version(output)}")
    return commands / "a2s"


def install_npm(folder, address, *options):
    """Installs @a2s/cli from a served folder; npm chooses the platform package."""
    folder.mkdir(exist_ok=True)
    (folder / "package.json").write_text('{"private": true}')
    npm = ["npm.cmd" if os.name == "nt" else "npm", "install", "--no-audit", "--no-fund", "--loglevel=error"]
    # Its own cache: one version may have another content in each build.
    run(*npm, "--registry", address, "--cache", folder / "cache", *options, "@a2s/cli", cwd=folder)
    return folder / "node_modules/.bin" / ("a2s.cmd" if os.name == "nt" else "a2s")
