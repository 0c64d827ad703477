#!/usr/bin/env bash
# Timings of the datatype engine against the MPIs, each in a process of its own. Rows go to target/bench.
#   bench.sh quick      few and short samples of everything
#   bench.sh datatype   full samples, and the figures of the paper
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

release=target/openmpi/release
[ -x "$release/capulet" ] || fail "$release/capulet is missing; run: make build"
SECONDS=0
mkdir -p target/bench
case ${1:-} in
    quick) options=(--quick) suffix=-quick ;;
    datatype) options=() suffix= ;;
    *) fail "usage: scripts/bench.sh quick|datatype" ;;
esac
for bench in datatype transpack; do
    say "bench: capulet bench $bench ${options[*]}"
    "$release/capulet" bench "$bench" "${options[@]}" --save "target/bench/$bench$suffix.json"
done
if [ "$1" = datatype ]; then
    say "bench: figures"
    "$release/capulet-bench-figures" target/bench/datatype.json target/bench/transpack.json --out target/bench
fi
say "bench: took $SECONDS s; rows in target/bench"
