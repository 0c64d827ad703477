#!/usr/bin/env bash
# Cross-compiles the kernels for 64-bit Arm and tests them under user-mode emulation. Times nothing.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

target=aarch64-unknown-linux-gnu
command -v qemu-aarch64 >/dev/null || fail "qemu-aarch64 is missing; install Debian's qemu-user"
command -v aarch64-linux-gnu-gcc >/dev/null || fail "the linker is missing; install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
rustup target list --installed | grep -qx "$target" || fail "the target is missing; run: rustup target add $target"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"

say "arm: kernels of capulet-datatype under emulation"
cargo test --target "$target" --target-dir target/arm -p capulet-datatype --lib kernel
