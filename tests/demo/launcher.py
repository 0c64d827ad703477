"""Starts the demo's programs under mpiexec, with or without Capulet, or alone. Each has a time limit."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "target" / "openmpi" / "release"
CAPULET = RELEASE / "capulet"
LIBRARY = RELEASE / "libcapulet_openmpi.so"
MPIEXEC = "mpiexec.openmpi"
RANKS = 4

POLL_SECONDS = 0.05
# Time that a program gets to end after it was told to.
GRACE_SECONDS = 5


class DemoError(Exception):
    """The reason why the demo fails, for its user."""


def environment(with_capulet):
    """Returns the environment of one run. Only a run with Capulet sees Capulet's variables. No run sees a
    preload from outside."""
    env = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    if with_capulet:
        env["CAPULET_STATS"] = "1"
    else:
        env = {key: value for key, value in env.items() if not key.startswith("CAPULET_")}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    if os.geteuid() == 0:
        env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    if (os.cpu_count() or 1) < RANKS:
        env["OMPI_MCA_mpi_yield_when_idle"] = "1"
    return env


def run_mpi(program, with_capulet, limit_seconds, tick):
    """Runs a program on all ranks and returns its stdout and its stderr. Both sides differ in nothing
    else."""
    command = [MPIEXEC, "--oversubscribe", "-n", str(RANKS)]
    if with_capulet:
        command += [str(CAPULET), "run", "--"]
    return run(command + program, environment(with_capulet), limit_seconds, tick)


def run_alone(program, limit_seconds, tick):
    """Runs a serial program, which does not see Capulet."""
    return run(program, environment(with_capulet=False), limit_seconds, tick)


def run(command, env, limit_seconds, tick):
    """Runs a command in a process group of its own and calls `tick` while the command runs. Fails unless the
    command ends in time and with success."""
    command = [str(word) for word in command]
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        try:
            process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
            )
        except OSError as error:
            raise DemoError(f"cannot start {command[0]}: {error.strerror}") from error
        try:
            in_time = wait(process, limit_seconds, tick)
        finally:
            end_group(process)
        output, errors = (read_text(stream) for stream in (stdout, stderr))
    if not in_time:
        raise DemoError(failure(command, f"did not end within {limit_seconds} s", output, errors))
    if process.returncode != 0:
        raise DemoError(failure(command, f"ended with exit code {process.returncode}", output, errors))
    return output, errors


def wait(process, limit_seconds, tick):
    deadline = time.monotonic() + limit_seconds
    while process.poll() is None:
        if time.monotonic() > deadline:
            return False
        tick()
        time.sleep(POLL_SECONDS)
    return True


def end_group(process):
    """Ends the rest of the command's process group. mpiexec passes SIGTERM on to its ranks, so it gets
    time for that."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(process.pid, number)
        try:
            process.wait(GRACE_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


def read_text(stream):
    stream.seek(0)
    return stream.read().decode(errors="replace")


def failure(command, what, output, errors):
    lines = (output + errors).strip().splitlines()[-25:]
    return "\n".join([f"{' '.join(command)}", f"  {what}; its last lines:"] + [f"  | {line}" for line in lines])
