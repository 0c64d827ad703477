# shellcheck shell=bash
# The other scripts source this file. It sets the paths, and the environment that each MPI needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
env_dir=$root/target/env
# Debian's Python, never another one that comes before it in PATH: the Debian modules belong to it.
# shellcheck disable=SC2034 # used by the scripts
python=/usr/bin/python3

# The crates that know no MPI; the crates whose build differs for each MPI; of these, the crates with tests
# that an MPI launches. The tests of capulet-atomic and capulet-sieve replace MPI by threads or processes.
# shellcheck disable=SC2034 # used by the scripts
pure=(-p capulet-agreement -p capulet-datatype -p capulet-drivers -p capulet-plan -p capulet-protocol -p capulet-job -p capulet-cached-fs -p capulet-verify -p capulet-graph -p capulet-word-server)
# The programs that know no MPI. Their many dependencies are built in release mode already, so their tests are
# too.
# shellcheck disable=SC2034 # used by the scripts
tools=(-p capulet-cli -p capulet-bench-report -p capulet-bench-figures)
# shellcheck disable=SC2034 # used by the scripts
on_mpi=(-p capulet-comm -p capulet-atomic -p capulet-sieve -p capulet-adio -p capulet-capi -p capulet-benches)
# shellcheck disable=SC2034 # used by the scripts
launching=(-p capulet-comm -p capulet-adio -p capulet-capi -p capulet-benches)

# say TEXT: prints the name of a step that begins. Also appends name and time to the file $CAPULET_TIMES, if
# it is set; scripts/times.sh makes a table of it.
say() {
    printf '== %s\n' "$*"
    [ -z "${CAPULET_TIMES:-}" ] || printf '%s\t%s\n' "$(date +%s.%N)" "$*" >>"$CAPULET_TIMES"
}
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# use_mpi NAME: sets the compiler, the launcher and the settings of one MPI, for cargo and for the tests.
# capi/build.rs reads CAPULET_SONAME.
use_mpi() {
    export CAPULET_MPI=$1 CAPULET_SONAME=libcapulet_$1.so
    case $1 in
        openmpi) export MPICC=mpicc.openmpi MPIEXEC=mpiexec.openmpi ;;
        mpich) export MPICC=mpicc.mpich MPIEXEC=mpiexec.mpich ;;
        openmpi5) export MPICC=$env_dir/openmpi5/bin/mpicc MPIEXEC=$env_dir/openmpi5/bin/mpiexec ;;
        mpich5) export MPICC=$env_dir/mpich5/bin/mpicc MPIEXEC=$env_dir/mpich5/bin/mpiexec ;;
        *) fail "unknown MPI $1" ;;
    esac
    command -v cargo >/dev/null || fail "Rust is missing; install it with rustup"
    command -v "$MPICC" >/dev/null || fail "$MPICC is missing; run: make setup"
}

# share_built FROM TO PROFILE: copies crates that know no MPI from target/FROM/PROFILE to target/TO/PROFILE, so that
# cargo does not compile them again. Overwrites nothing. Names of crates of the registry contain a hash of all
# that they are made of. Names of the workspace's crates do not tell their sources, so these crates are copied only
# if target/TO/PROFILE is new. Leaves out mpi-sys and mpi, whose names do not tell the MPI. No hard links, because
# cargo writes fingerprints in place.
share_built() {
    local from=target/$1/$3 to=target/$2/$3 kind pure=^$
    [ -d "$to/deps" ] ||
        pure='/(lib)?capulet[-_](agreement|datatype|drivers|plan|protocol|bench[-_]report|cached[-_]fs|job|verify|word[-_]server)-'
    for kind in .fingerprint build deps; do
        [ -d "$from/$kind" ] || continue
        mkdir -p "$to/$kind"
        find "$from/$kind" -mindepth 1 -maxdepth 1 |
            awk -v pure="$pure" '!/\/(lib)?(mpi[-_]|capulet)[^\/]*$/ || $0 ~ pure' |
            xargs -r cp --archive --reflink=auto --no-clobber --target-directory "$to/$kind"
    done
}

# Tests start up to 7 ranks on any number of cores, and run as root in CI. Open MPI 4 and 5 refuse both
# without these settings.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
