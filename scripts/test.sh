#!/usr/bin/env bash
# Checks and tests everything: lint.sh, build.sh, and all tests. The crates that know no MPI are tested once,
# those that an MPI launches and whole programs on both MPIs, the toolkit on the wheels of both MPIs too. Ends
# with a table of what took how long.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

times=$root/target/times
rm -rf "$times"
mkdir -p "$times"
export CAPULET_TIMES=$times/steps.tsv CAPULET_JOB_TIMES=$times/jobs.tsv
scripts/setup.sh
scripts/lint.sh
scripts/build.sh

# The compiler compiles a closure that it does not inline without the vector instructions of the
# surrounding function. The closure then calls a function for each instruction, which gives right results
# but is ten times slower.
say "test: no vector instruction of a kernel is a call"
for mpi in openmpi mpich mpich5; do
    symbols=$(nm --demangle "target/$mpi/release/libcapulet.so")
    grep -q copy::kernel <<<"$symbols" || fail "target/$mpi has no symbols to search"
    called=$(grep core_arch <<<"$symbols" | grep -v xgetbv) || true
    [ -z "$called" ] || fail "target/$mpi calls vector instructions as functions: $called"
done

say "test: the demo's own checks"
PYTHONDONTWRITEBYTECODE=1 "$python" -m unittest discover -s tests/demo
use_mpi openmpi
say "test: the crates without MPI"
cargo test --target-dir target/openmpi "${pure[@]}"
say "test: the command and the figures"
cargo test --release --target-dir target/openmpi "${tools[@]}"
say "test: the crates on openmpi"
cargo test --target-dir target/openmpi "${on_mpi[@]}"
say "test: whole programs on openmpi"
cargo test --target-dir target/openmpi -p capulet-tests
use_mpi mpich
say "test: the crates on mpich"
share_built openmpi mpich debug
cargo test --target-dir target/mpich "${launching[@]}"
say "test: whole programs on mpich"
cargo test --target-dir target/mpich -p capulet-tests
if [ -n "${CAPULET_TEST_LONG:-}" ]; then
    say "test: programs of 7 ranks on mpich"
    cargo test --target-dir target/mpich -p capulet-tests --test programs -- --ignored on_7
fi
# The newest MPICH calls Capulet from other functions while it waits. The library is built already; the
# tests use the same profile.
use_mpi mpich5
say "test: nonblocking collectives, error handlers and names on mpich5"
cargo test --release --target-dir target/mpich5 -p capulet-capi --test programs -- nonblocking_collectives split_collectives error_handlers
# The test opens the library outside of a launcher, and the wheel lies on no path of the loader.
LD_LIBRARY_PATH=$env_dir/mpich5/lib cargo test --release --target-dir target/mpich5 -p capulet-capi --test symbols
# The toolkit depends on an MPI's description of its types, so the newest version of each MPI is tested
# too.
for mpi in mpich5 openmpi5; do
    use_mpi "$mpi"
    say "test: the toolkit on $mpi"
    [ "$mpi" = mpich5 ] || share_built mpich5 "$mpi" release
    cargo test --release --target-dir "target/$mpi" -p capulet-capi --test toolkit
done
say "test: all passed"
scripts/times.sh "$CAPULET_TIMES" "$CAPULET_JOB_TIMES"
