#!/usr/bin/env bash
# quick.sh [CRATE...]: a verdict on a change of few crates, on Open MPI: format, clippy, the crates' own tests,
# and a few launched programs if a crate is part of the library. CRATE is a folder (`comm`, `sieve/plan`).
# Without arguments: the crates with files that differ from the last commit.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"
use_mpi openmpi

# crate_of FILE: the nearest folder above FILE with the manifest of a package.
crate_of() {
    local folder
    folder=$(dirname "$1")
    while [ "$folder" != . ] && ! grep -qs '^\[package\]' "$folder/Cargo.toml"; do folder=$(dirname "$folder"); done
    [ "$folder" = . ] || echo "$folder"
}
name_of() { sed -n '/^\[package\]/,/^\[/s/^name = "\(.*\)"/\1/p' "$1/Cargo.toml"; }

folders=("$@")
if [ ${#folders[@]} = 0 ]; then
    mapfile -t folders < <({ git diff --name-only HEAD; git ls-files --others --exclude-standard; } |
        grep -E '\.(rs|toml|c|h|f90|py)$' | while read -r file; do crate_of "$file"; done | sort -u)
fi
say "quick: format"
cargo fmt --all --check
[ ${#folders[@]} -gt 0 ] || { say "quick: no crate differs from the last commit"; exit 0; }

packages=()
is_in_library=false
for folder in "${folders[@]}"; do
    folder=${folder%/}
    [ -f "$folder/Cargo.toml" ] || fail "$folder has no Cargo.toml"
    # The launched programs are run below.
    [ "$folder" = tests ] || packages+=(-p "$(name_of "$folder")")
    case $folder in
        datatype | drivers | comm* | atomic* | sieve* | adio | capi | tests) is_in_library=true ;;
    esac
done
if [ ${#packages[@]} -gt 0 ]; then
    say "quick: clippy ${packages[*]}"
    cargo clippy --target-dir target/openmpi "${packages[@]}" --all-targets -- -D warnings
    say "quick: tests ${packages[*]}"
    # Fewer random cases than in `make test`, where a test takes their number from this variable.
    PROPTEST_CASES=${PROPTEST_CASES:-64} cargo test --target-dir target/openmpi "${packages[@]}"
fi
if $is_in_library; then
    say "quick: programs on the library"
    cargo build --release --target-dir target/openmpi -p capulet-capi
    ln -f target/openmpi/release/libcapulet.so "target/openmpi/release/$CAPULET_SONAME"
    cargo test --target-dir target/openmpi -p capulet-tests --test programs -- \
        views::on_3 pointers::on_2 shared::on_2 atomic::on_3 errors::on_2 nodes_exchange
fi
say "quick: all passed"
