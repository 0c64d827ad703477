#!/usr/bin/env bash
# Installs all that building, testing and the demo need: Debian packages, two Python environments, the
# sources of mpi4py. Installs only missing parts, so a second run does nothing.
# shellcheck source=scripts/common.sh
source "$(dirname "$0")/common.sh"

list() { sed 's/#.*//' "$1"; }
pinned() { list scripts/versions.txt | awk -v group="$1" '$1 == group { print $2 }'; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        command -v sudo >/dev/null || fail "installing Debian packages needs root or sudo"
        sudo "$@"
    fi
}

debian_packages() {
    command -v dpkg-query >/dev/null ||
        fail "not a Debian system: install the counterparts of scripts/packages.txt yourself"
    local wanted installed missing
    mapfile -t wanted < <(list scripts/packages.txt | xargs -n 1 | sort)
    # dpkg-query fails if it does not know a package. Its list is right all the same.
    installed=$(dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
        awk '$1 == "installed" { print $2 }' | sort -u) || true
    mapfile -t missing < <(comm -23 <(printf '%s\n' "${wanted[@]}") <(echo "$installed"))
    [ ${#missing[@]} -gt 0 ] || return 0
    say "setup: Debian packages: ${missing[*]}"
    as_root apt-get update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# done_already NAME WHAT: whether the stamp of step NAME tells that WHAT is installed.
done_already() { [ "$(cat "$env_dir/$1.stamp" 2>/dev/null)" = "$2" ]; }
stamp() { echo "$2" >"$env_dir/$1.stamp"; }

python_environment() {
    local name=$1 wanted
    mapfile -t wanted < <(pinned "$name")
    done_already "$name" "${wanted[*]}" && return 0
    say "setup: Python environment target/env/$name: ${wanted[*]}"
    rm -rf "${env_dir:?}/$name"
    "$python" -m venv "$env_dir/$name"
    "$env_dir/$name/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --only-binary :all: \
        "${wanted[@]}"
    stamp "$name" "${wanted[*]}"
}

python_sources() {
    local wanted requirement archives
    mapfile -t wanted < <(pinned src)
    done_already src "${wanted[*]}" && return 0
    rm -rf "$env_dir/src"
    mkdir -p "$env_dir/src"
    archives=$(mktemp -d)
    for requirement in "${wanted[@]}"; do
        say "setup: sources of $requirement in target/env/src"
        # pip downloads an archive of sources only with its metadata, which it must build. The pip of the
        # virtual environment can do this, whichever pip the system has.
        "$env_dir/mpich5/bin/python" -m pip download --quiet --no-input --disable-pip-version-check --no-deps \
            --no-binary "${requirement%%==*}" --dest "$archives" "$requirement"
    done
    for archive in "$archives"/*.tar.gz; do
        tar -xzf "$archive" -C "$env_dir/src" --no-same-owner
    done
    rm -rf "$archives"
    stamp src "${wanted[*]}"
}

debian_packages
mkdir -p "$env_dir"
python_environment mpich5
python_environment openmpi5
python_sources
