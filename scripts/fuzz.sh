#!/usr/bin/env bash
# Fuzzes the decoders of messages, and the code that uses the decoded values. The findings stay in
# target/fuzz.
#   fuzz.sh [SECONDS]   time for each target; 60 by default
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

seconds=${1:-60}
cargo +nightly fuzz --version >/dev/null 2>&1 ||
    fail "cargo-fuzz is missing; run: rustup toolchain install nightly && cargo install cargo-fuzz"
found=$root/target/fuzz
mkdir -p "$found"/{wire,copy,seeds,artifacts/wire,artifacts/copy}

# A seed holds counts (3 and 5), four numbers, the length of the first message, and then two messages.
messages=(datatype/fuzz/corpus/wire/*)
for i in "${!messages[@]}"; do
    first=${messages[i]} second=${messages[(i * 7 + 3) % ${#messages[@]}]}
    bytes=$(stat --format %s "$first")
    [ "$bytes" -lt 256 ] || continue
    length=$(printf '\\x%02x' "$bytes")
    { printf '\003\005\000\000\377\177\007\000\350\003%b' "$length" && cat "$first" "$second"; } >"$found/seeds/$i"
done

cd datatype
# fuzz TARGET MAX_LEN CORPUS...
fuzz() {
    local target=$1 length=$2
    shift 2
    say "fuzz: $target, $seconds s"
    cargo +nightly fuzz run --target-dir "$found/build" "$target" "$@" -- -max_len="$length" -timeout=10 \
        -max_total_time="$seconds" -print_final_stats=1 -artifact_prefix="$found/artifacts/$target/"
}
fuzz wire 1024 "$found/wire" fuzz/corpus/wire
fuzz copy 512 "$found/copy" "$found/seeds"
