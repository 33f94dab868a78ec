# List the recipes.
default:
    @just --list

# What to run before each commit: no network, minutes when warm.
check:
    tools/check

# Everything that the gate checks.
verify:
    .ci/run

# Format the code.
fmt:
    cargo fmt --all

# Lint as the gate does.
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# Run the tests.
test:
    cargo test --locked

# Try many other cases of the properties than the gate does.
properties cases="20000":
    PROPTEST_CASES={{cases}} PROPTEST_MAX_GLOBAL_REJECTS=1000000 cargo test --locked --workspace --no-fail-fast

# Build the documentation, private items included.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked

# Review changed snapshots (needs cargo-insta).
snapshots:
    cargo insta review

# Fill in the checksums of the shipped documents.
checksums:
    for file in capabilities/*.yaml; do cargo run --locked --quiet -- checksum --write "$file"; done

# Check licences, sources and known faults of dependencies (needs cargo-deny).
deny:
    cargo deny --locked check

# Make all packages of a release for this machine, in target/packages.
dist:
    #!/usr/bin/env bash
    set -euo pipefail
    version="$(cargo pkgid --locked -p a2s-cli)"
    program="$(tools/release | tail -n 1)"
    rm -rf target/packages
    dist/package "$program" "${version##*[@#]}" target/packages

# Cut the power in the first seconds of a data folder, and start again (needs root, ext4 and loop devices).
show-powercut seed="" cuts="6":
    cargo build --locked --quiet
    tests/powercut/show target/debug/a2s {{seed}} {{ if seed == "" { "" } else { cuts } }}

# Measure the time per step beside a bare client.
bench:
    cargo bench --locked

# Print the cost of a publish against the size of the registry, beside a bare insert of the same run.
curves *sizes:
    cargo bench --locked -p registry --bench publishing -- {{sizes}}

# Fuzz the compiler with documents of every size, within a bound of memory.
fuzz-compile seconds="600":
    cd a2s && cargo fuzz run -s none compile fuzz/corpus/compile fuzz/seeds/compile ../capabilities \
        -- -dict=fuzz/seeds/words.dict -max_total_time={{seconds}} -timeout=60 -rss_limit_mb=512 -malloc_limit_mb=64 -max_len=1048576

# Fuzz the answers of embeddings APIs; needs cargo-fuzz and a C++ compiler.
fuzz-answers seconds="600":
    cd registry && cargo fuzz run -s none answer fuzz/corpus/answer fuzz/seeds/answer \
        -- -max_total_time={{seconds}} -timeout=10 -rss_limit_mb=1024 -max_len=4000

# Fuzz one target of the language (document, expression, openapi, checksum, sentence); the same.
fuzz target seconds="600":
    cd a2s && cargo fuzz run -s none {{target}} fuzz/corpus/{{target}} \
        {{ if path_exists("a2s/fuzz/seeds/" + target) == "true" { "fuzz/seeds/" + target } else { "../tests/fixtures/documents/valid ../tests/fixtures/documents/invalid ../capabilities" } }} \
        -- -dict=fuzz/seeds/words.dict -max_total_time={{seconds}} -timeout=10 -rss_limit_mb=1024 -max_len=20000

# Fuzz the answers of MCP servers; the same.
fuzz-mcp seconds="600":
    cd executor && cargo fuzz run -s none mcp fuzz/corpus/mcp fuzz/seeds/mcp \
        -- -dict=fuzz/seeds/words.dict -max_total_time={{seconds}} -timeout=10 -rss_limit_mb=1024 -max_len=4000

# Fuzz chains of redirects; the same.
fuzz-redirect seconds="600":
    cd executor && cargo fuzz run -s none redirect fuzz/corpus/redirect fuzz/seeds/redirect \
        -- -max_total_time={{seconds}} -timeout=10 -rss_limit_mb=512 -max_len=4000

# Fuzz the guardian (message, policy).
fuzz-guardian target seconds="600":
    cd guardian && cargo fuzz run -s none {{target}} fuzz/corpus/{{target}} fuzz/seeds/{{target}} \
        -- -max_total_time={{seconds}} -timeout=10 -rss_limit_mb=512 -malloc_limit_mb=64 -max_len=20000

# Fuzz what other agents say and ask (peer, request).
fuzz-a2a target seconds="600":
    cd a2a && cargo fuzz run -s none {{target}} fuzz/corpus/{{target}} fuzz/seeds/{{target}} \
        -- -dict=fuzz/seeds/a2a.dict -max_total_time={{seconds}} -timeout=10 -rss_limit_mb=1024 -max_len=20000
