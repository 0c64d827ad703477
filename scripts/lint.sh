#!/usr/bin/env bash
# Format, clippy and documentation; a warning is an error.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

say "lint: format"
cargo fmt --all --check
for mpi in openmpi mpich; do
    use_mpi "$mpi"
    say "lint: clippy on $mpi"
    cargo clippy --target-dir "target/$mpi" --workspace --all-targets -- -D warnings
done
use_mpi openmpi
say "lint: documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --target-dir target/openmpi --workspace --no-deps
