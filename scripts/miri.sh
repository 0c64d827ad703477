#!/usr/bin/env bash
# Runs the tests of capulet-datatype under Miri, on the scalar kernels. Miri checks that every access lies
# within its object, is initialized and aligned for its type, and uses a pointer that permits the access.
# Takes a quarter to half an hour on one core, depending on the random types.
#   miri.sh [ARGUMENT]...   arguments of `cargo test`: `--lib`, `--test transpack`, ... instead of everything
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

cargo +nightly miri --version >/dev/null 2>&1 ||
    fail "Miri is missing; run: rustup toolchain install nightly --component miri,rust-src"
cd datatype
# The processor decides which bits a conversion gives a NaN. Miri would choose them anew each time.
strict="-Zmiri-strict-provenance -Zmiri-deterministic-floats"
miri() { cargo +nightly miri test --target-dir "$root/target/miri" "$@"; }

if [ $# -gt 0 ]; then
    MIRIFLAGS=$strict miri "$@"
    exit
fi
say "miri: the crate and its tests, with strict provenance"
MIRIFLAGS=$strict miri --lib --tests --examples -- --skip null_base
say "miri: absolute addresses, whose provenance is what was exposed"
MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-deterministic-floats" miri --test copies --test translate -- null_base
