#!/usr/bin/env bash
# Timings. None is taken yet but the demo's; this says so and does not pretend.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

say "bench: there are no benchmarks of their own yet."
echo "Interleaved timings with Capulet and without, on real data, are in the table that 'make demo' prints."
