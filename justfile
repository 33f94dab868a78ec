# List the recipes.
default:
    @just --list

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

# Build the documentation, private items included.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked

# Review changed snapshots (needs cargo-insta).
snapshots:
    cargo insta review

# Fill in the checksums of the shipped documents.
checksums:
    for file in capabilities/*.yaml; do cargo run --locked --quiet -- checksum --write "$file"; done

# Measure the time per step beside a bare client.
bench:
    cargo bench --locked
