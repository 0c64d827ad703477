#!/usr/bin/env bash
# Timings of the datatype engine against the MPIs, each in a process of its own: bench.sh quick.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

[ "${1:-}" = quick ] || fail "usage: scripts/bench.sh quick"
capulet=target/openmpi/release/capulet
[ -x "$capulet" ] || fail "$capulet is missing; run: make build"
SECONDS=0
mkdir -p target/bench
for bench in datatype transpack; do
    say "bench: capulet bench $bench --quick"
    "$capulet" bench "$bench" --quick --save "target/bench/$bench-quick.json"
done
say "bench: took $SECONDS s; rows in target/bench; without --quick the times can be relied on, on an idle machine"
