"""The address and the token: arguments first, then the environment, then this machine."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

import httpx

DEFAULT_URL = "http://127.0.0.1:8740"


def resolve_url(url: str | None) -> httpx.URL:
    """Returns the address of A2S. Raises `ValueError` when it is not one."""
    text = url or os.environ.get("A2S_URL") or DEFAULT_URL
    parsed = httpx.URL(text)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"the address {text!r} must begin with http:// or https://")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ValueError("the address must not contain a user, a query or a fragment")
    return parsed.copy_with(raw_path=parsed.raw_path.rstrip(b"/"))


def resolve_token(token: str | None, url: httpx.URL) -> str | None:
    """Returns the token for the address; none when there is none.

    Only a service on this machine gets the token that `a2s up` wrote into its data folder.
    """
    found = token or os.environ.get("A2S_TOKEN")
    if not found and is_loopback(url):
        try:
            found = (_data_folder() / "token").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
    return found or None


def is_loopback(url: httpx.URL) -> bool:
    """Returns whether the address names this machine."""
    if url.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(url.host).is_loopback
    except ValueError:
        return False


def _data_folder() -> Path:
    if folder := os.environ.get("A2S_DATA_DIR"):
        return Path(folder)
    if folder := os.environ.get("XDG_DATA_HOME"):
        return Path(folder) / "a2s"
    return Path("~/.local/share/a2s").expanduser()
