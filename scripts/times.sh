#!/usr/bin/env bash
# times.sh STEPS JOBS: prints how long each step of `make test` took, and the launched tests that took longest.
# STEPS has a line "TIME<tab>NAME" for the begin of each step (`say` in common.sh); the last line ends the last
# step. JOBS has a line "SECONDS<tab>MPI<tab>TEST" for each launched job (tests/src/launch.rs).
set -euo pipefail
printf '%8s  %s\n' seconds step
awk -F '\t' '
    NR > 1 { printf "%8.0f  %s\n", $1 - begun, name }
    NR == 1 { first = $1 }
    { begun = $1; name = $2 }
    END { printf "%8.0f  %s (%.1f minutes)\n", begun - first, "all", (begun - first) / 60 }' "$1"
[ -s "$2" ] || exit 0
printf '\n%8s  %5s  %s\n' seconds jobs "launched test"
awk -F '\t' '
    { key = $2 ": " $3; seconds[key] += $1; jobs[key]++; all += $1; count++ }
    END {
        for (key in seconds) printf "%8.1f  %5d  %s\n", seconds[key], jobs[key], key
        printf "%8.1f  %5d  all\n", all, count
    }' "$2" | sort -rn | sed -n 1,25p
