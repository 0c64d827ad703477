#!/usr/bin/env bash
# Checks format, clippy and documentation. A warning is an error.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

say "lint: format"
cargo fmt --all --check
# rustfmt does not check comments. Rows of tables may be longer.
long=$(git ls-files '*.rs' | LC_ALL=C.UTF-8 xargs grep -nE '^ *//.{109,}$' | LC_ALL=C.UTF-8 grep -E '^[^:]*:[0-9]*:.{111,}$' |
    grep -vE '^[^:]*:[0-9]*: *//[/!] \|' | cut -d: -f1,2) || true
[ -z "$long" ] || fail "comments longer than 110 columns: $long"
lint() {
    use_mpi "$1"
    say "lint: clippy on $1"
    cargo clippy --target-dir "target/$1" "${@:2}" --all-targets -- -D warnings
}
lint openmpi --workspace
share_built openmpi mpich debug
lint mpich "${on_mpi[@]}" -p capulet-tests
use_mpi openmpi
say "lint: documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --target-dir target/openmpi --workspace --no-deps
