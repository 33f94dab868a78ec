#!/bin/sh
# Installs a2s @VERSION@ into ~/.local/bin, without root:
#
#   sh install.sh
#
# Variables:
#   PREFIX         the folder that gets bin/a2s            [default: ~/.local]
#   A2S_BASE_URL   the address of the folder with archives [default: @BASE_URL@]
#   A2S_TARGET     the target, if the detected one is wrong
#
# The checksums of the archives are in this script, so a mirror cannot serve other programs.
set -eu

fail() {
    echo "error: $1" >&2
    exit 1
}

# Prints the name of the archive's target for this machine.
detect_target() {
    case "$(uname -m)" in
        x86_64 | amd64) cpu=x86_64 ;;
        aarch64 | arm64) cpu=aarch64 ;;
        *) cpu="$(uname -m)" ;;
    esac
    case "$(uname -s)" in
        Darwin) echo "$cpu-apple-darwin" ;;
        Linux)
            # Alpine and others have musl as their C library.
            if ls /lib/ld-musl-* >/dev/null 2>&1 && ! getconf GNU_LIBC_VERSION >/dev/null 2>&1; then
                echo "$cpu-unknown-linux-musl"
            else
                echo "$cpu-unknown-linux-gnu"
            fi
            ;;
        *) echo "$cpu-$(uname -s)" ;;
    esac
}

# Prints the SHA-256 of the archive for a target.
find_checksum() {
    case "$1" in
@CHECKSUMS@
    esac
}

compute_checksum() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1" | cut -d ' ' -f 1
    elif command -v shasum >/dev/null; then
        shasum -a 256 "$1" | cut -d ' ' -f 1
    else
        fail "sha256sum and shasum are missing: install one of them to verify the download"
    fi
}

download() {
    if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --output "$2" "$1"
    elif command -v wget >/dev/null; then
        wget --quiet --output-document="$2" "$1"
    else
        fail "curl and wget are missing: install one of them"
    fi || fail "the download failed: $1"
}

main() {
    base_url="${A2S_BASE_URL:-@BASE_URL@}"
    bin="${PREFIX:-${HOME:?}/.local}/bin"
    target="${A2S_TARGET:-$(detect_target)}"
    expected="$(find_checksum "$target")"
    [ -n "$expected" ] || fail "this release has no program for $target: build A2S from source with Rust"

    folder="$(mktemp -d)"
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 1' HUP INT TERM
    name="a2s-@VERSION@-$target"
    download "$base_url/$name.tar.gz" "$folder/$name.tar.gz"
    computed="$(compute_checksum "$folder/$name.tar.gz")"
    [ "$computed" = "$expected" ] ||
        fail "the archive has the checksum $computed, not $expected: download it again, or report it"

    tar -xzf "$folder/$name.tar.gz" -C "$folder"
    [ "$("$folder/$name/a2s" --version)" = "a2s @VERSION@" ] ||
        fail "the program for $target does not run on this machine: try another one, with A2S_TARGET"
    mkdir -p "$bin"
    # Into the same folder first: a rename replaces the old program at once, also while it runs.
    cp "$folder/$name/a2s" "$bin/.a2s.new"
    mv "$bin/.a2s.new" "$bin/a2s"

    echo "installed a2s @VERSION@ as $bin/a2s"
    case ":$PATH:" in
        *":$bin:"*) echo "next: a2s demo" ;;
        *) echo "next: add $bin to PATH, then a2s demo" ;;
    esac
}

# The only command of the script is its last line: of half a download, nothing runs.
main
