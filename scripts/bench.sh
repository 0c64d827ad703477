#!/usr/bin/env bash
# Measures Capulet against the MPIs. The rows go to target/bench.
#   bench.sh quick      few and short samples of everything
#   bench.sh datatype   full samples, and the figures of the paper
#   bench.sh files      files against the MPIs' own layers, full samples on 4, 2 and 8 ranks
#   bench.sh locks      the locks of atomic mode by themselves on 1 to 16 ranks, and the figures of the paper;
#                       atomic mode on 4 and 8 ranks
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

release=target/openmpi/release
[ -x "$release/capulet" ] || fail "$release/capulet is missing; run: make build"
SECONDS=0
mkdir -p target/bench
case ${1:-} in
    quick) benches=(datatype transpack collective independent) options=(--quick) suffix=-quick ;;
    datatype) benches=(datatype transpack) options=() suffix= ;;
    files) benches=(collective independent) options=(--ranks 4 --ranks 2 --ranks 8) suffix= ;;
    locks) benches=(atomic locks) options=(--ranks 4 --ranks 8 --mpi openmpi) suffix= ;;
    *) fail "usage: scripts/bench.sh quick|datatype|files|locks" ;;
esac
for bench in "${benches[@]}"; do
    more=()
    [ "$bench" != locks ] || more=(--ranks 1 --ranks 2 --ranks 16)
    say "bench: capulet bench $bench ${options[*]} ${more[*]}"
    "$release/capulet" bench "$bench" "${options[@]}" "${more[@]}" --save "target/bench/$bench$suffix.json"
done
if [ "$1" = locks ]; then
    say "bench: figures"
    "$release/capulet-bench-figures" --locks target/bench/locks.json --out target/bench
fi
if [ "$1" = datatype ]; then
    say "bench: figures"
    "$release/capulet-bench-figures" target/bench/datatype.json target/bench/transpack.json --out target/bench
fi
say "bench: took $SECONDS s; rows in target/bench"
