"""The address and the token: arguments first, then the environment, then this machine."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

import httpx

from .errors import InvalidInput

DEFAULT_URL = "http://127.0.0.1:8740"


def resolve_url(url: str | None) -> httpx.URL:
    """Returns the address of A2S. Raises `InvalidInput` when it is not one."""
    text = url or os.environ.get("A2S_URL") or DEFAULT_URL
    hint = f"Give an address such as {DEFAULT_URL}, or set A2S_URL."
    try:
        parsed = httpx.URL(text)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidInput(f"the address {text!r} is not valid: {error}", hint=hint) from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidInput(f"the address {text!r} must begin with http:// or https://", hint=hint)
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise InvalidInput("the address must not contain a user, a query or a fragment", hint=hint)
    return parsed.copy_with(raw_path=parsed.raw_path.rstrip(b"/"))


def resolve_token(token: str | None, url: httpx.URL, allow_insecure: bool | None) -> str | None:
    """Returns the token for the address; none when there is none.

    A2S_TOKEN belongs to the origin of A2S_URL; without A2S_URL, to this machine. Only a service on this
    machine gets the token that `a2s up` wrote into its data folder. Raises `InvalidInput` for a token that
    would leave this machine over plain HTTP.
    """
    found = token or (os.environ.get("A2S_TOKEN") if _owns_token(url) else None)
    if found and url.scheme != "https" and not is_loopback(url) and not _allows_insecure(allow_insecure):
        raise InvalidInput(
            f"the SDK does not send a token to `{url.host}` over plain http",
            hint="Use an https address. If the network itself is protected, allow it with the option "
            "`allow_insecure_tokens` or with A2S_ALLOW_INSECURE_TOKENS=true.",
        )
    if not found and is_loopback(url):
        try:
            found = (_data_folder() / "token").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
    return found or None


def _owns_token(url: httpx.URL) -> bool:
    """Returns whether A2S_TOKEN is meant for the address."""
    home = os.environ.get("A2S_URL")
    return _origin(resolve_url(home)) == _origin(url) if home else is_loopback(url)


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)


def _allows_insecure(option: bool | None) -> bool:
    return os.environ.get("A2S_ALLOW_INSECURE_TOKENS") in ("true", "1") if option is None else option


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
