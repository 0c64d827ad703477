#!/usr/bin/python3
"""Runs HDF5 and PnetCDF programs on real data with and without Capulet, and compares results and times.

    /usr/bin/python3 tests/demo/run.py [--data DIRECTORY] [--without-only]

Needs the Debian packages of `make setup` and, without `--without-only`, the files of `make build`. All
files that it makes lie in target/demo. README.md in this folder describes the programs, the comparison, and
the reasons for which the demo fails.
"""

import argparse
import dataclasses
import importlib.util
import shutil
import signal
import sys
import time
from pathlib import Path

import accounting
import launcher
import tables
from launcher import DemoError
from progress import Progress

HERE = Path(__file__).resolve().parent
OUT = launcher.ROOT / "target" / "demo"
DATA = Path("/usr/share/ferret-vis/data")
PYTHON = ["/usr/bin/python3", "-m", "mpi4py"]
MPICC = "mpicc.openmpi"
RELIEF_SOURCE, RELIEF_PROGRAM = HERE / "pnetcdf_relief.c", OUT / "pnetcdf_relief"
MAP = OUT / "relief.png"

# Number of timed runs of a program on each side. A first run warms the page cache and does not count.
TIMED_RUNS = 5
# Many times the duration of a run on two cores. The MPI's own I/O takes longest, for every 4th column.
RUN_LIMIT_SECONDS = 60
COLUMNS_LIMIT_SECONDS = 180
VERIFY_LIMIT_SECONDS = 120

WITH, WITHOUT = "with", "without"
FLOAT_BYTES = 4
RELIEF_BYTES = 2161 * 4320 * FLOAT_BYTES
TEMPERATURE_BYTES = 20 * 180 * 360 * FLOAT_BYTES


@dataclasses.dataclass(frozen=True)
class Program:
    """A parallel program: its command without the output, the name of its output, and the payload bytes
    of each phase."""

    name: str
    command: list
    output: str
    expected_bytes: dict
    limit_seconds: int = RUN_LIMIT_SECONDS
    options: tuple = ()


def h5py_program(data):
    both_bytes = RELIEF_BYTES + TEMPERATURE_BYTES
    command = [*PYTHON, HERE / "h5_decompose.py", data / "etopo5.cdf", data / "levitus_climatology.cdf"]
    expected_bytes = {
        "h5-source-etopo5": RELIEF_BYTES,
        "h5-source-levitus": TEMPERATURE_BYTES,
        "h5-write": both_bytes,
        "h5-read-back": both_bytes,
    }
    return Program("parallel h5py", command, "fields.h5", expected_bytes)


def blocks_program(data):
    command = [RELIEF_PROGRAM, "blocks", data / "etopo5.cdf"]
    expected_bytes = {"pnetcdf-blocks-read": RELIEF_BYTES, "pnetcdf-blocks-write": RELIEF_BYTES}
    return Program("PnetCDF column blocks", command, "relief_blocks.nc", expected_bytes)


def columns_program(data, side):
    """Every 4th column is read back with Capulet only, because the MPI's own I/O needs half a minute for
    it."""
    command = [RELIEF_PROGRAM, "columns", data / "etopo5.cdf"]
    expected_bytes = {"pnetcdf-columns-read": RELIEF_BYTES, "pnetcdf-columns-write": RELIEF_BYTES}
    options = ()
    if side == WITH:
        expected_bytes["pnetcdf-columns-check"] = RELIEF_BYTES
        options = ("check",)
    return Program(
        "PnetCDF every 4th column", command, "relief_columns.nc", expected_bytes, COLUMNS_LIMIT_SECONDS, options
    )


class Demo:
    """One demo: its data, the sides that run, and the results so far."""

    def __init__(self, data, sides, progress):
        self.data = data
        self.sides = sides
        self.progress = progress
        self.phases = {WITH: [], WITHOUT: []}
        self.stats = {}
        self.checked_bytes = 0

    @staticmethod
    def step_count(sides):
        """Number of steps: compilation, the warm-up and the timed runs of two programs, every 4th column,
        the map, and the comparison."""
        return 1 + 2 * len(sides) * (1 + TIMED_RUNS) + len(sides) + 1 + 1

    def run(self):
        for side in self.sides:
            shutil.rmtree(OUT / side, ignore_errors=True)
            (OUT / side).mkdir(parents=True)
        self.compile()
        repeated = [h5py_program(self.data), blocks_program(self.data)]
        for program in repeated:
            for side in self.sides:
                self.run_program(program, side, "warm-up", timed=False)
        for run in range(TIMED_RUNS):
            # The sides take turns to go first, so that a slow drift of the machine affects both alike.
            order = self.sides if run % 2 == 0 else self.sides[::-1]
            for program in repeated:
                for side in order:
                    self.run_program(program, side, f"run {run + 1} of {TIMED_RUNS}")
        for side in self.sides:
            self.run_program(columns_program(self.data, side), side, "once")
        self.draw_map()
        return self.verify()

    def compile(self):
        """Compiles the C program if it is missing or older than its source."""
        with self.progress.step("compile the PnetCDF program"):
            if RELIEF_PROGRAM.exists() and RELIEF_PROGRAM.stat().st_mtime >= RELIEF_SOURCE.stat().st_mtime:
                return
            new = RELIEF_PROGRAM.with_suffix(".new")
            command = [MPICC, "-std=c11", "-O2", "-Wall", "-Wextra", "-o", new, RELIEF_SOURCE, "-lpnetcdf"]
            launcher.run_alone(command, RUN_LIMIT_SECONDS, self.progress.tick)
            new.replace(RELIEF_PROGRAM)

    def run_program(self, program, side, what, timed=True):
        output = OUT / side / program.output
        paths = {
            "source": self.data / "etopo5.cdf",
            "etopo5": self.data / "etopo5.cdf",
            "levitus": self.data / "levitus_climatology.cdf",
            "output": output,
        }
        command = [*program.command, output, *program.options]
        with self.progress.step(f"{program.name} {side} Capulet, {what}"):
            phases = self.run_accounted(program, side, command, paths)
        if timed:
            self.phases[side] += phases

    def run_accounted(self, program, side, command, paths):
        """Runs a program on one side. Fails unless all its bytes were moved, and by this side."""
        stdout, stderr = launcher.run_mpi(command, side == WITH, program.limit_seconds, self.progress.tick)
        phases = accounting.parse_phases(stdout)
        accounting.check_phases(phases, program.expected_bytes)
        if side == WITH:
            stats = accounting.parse_stats(stderr)
            accounting.check_all_through_capulet(phases, paths, stats)
            self.stats[program.name] = stats
            self.checked_bytes += sum(phase.bytes for phase in phases)
        else:
            accounting.check_none_through_capulet(stderr)
        return phases

    def draw_map(self):
        side = self.sides[0]
        source = OUT / side / "fields.h5"
        command = [*PYTHON, HERE / "relief_map.py", source, MAP]
        program = Program("relief map", command, source.name, {"map-read": RELIEF_BYTES})
        MAP.unlink(missing_ok=True)
        with self.progress.step(f"draw the relief, read back {side} Capulet"):
            self.run_accounted(program, side, command, {"output": source})
        if not MAP.is_file():
            raise DemoError(f"{MAP} was not written")

    def verify(self):
        command = [PYTHON[0], HERE / "verify.py", self.data, *(OUT / side for side in self.sides)]
        with self.progress.step("compare cell by cell, by serial readers"):
            stdout, _ = launcher.run_alone(command, VERIFY_LIMIT_SECONDS, self.progress.tick)
        return stdout


def report(demo, verified):
    print("\nCompared with the source by serial readers, without Capulet:")
    print(verified.rstrip())
    if WITH in demo.sides:
        print("\nCapulet's statistics of each program's last run:")
        print(tables.stats_table(demo.stats.items()))
        print(f"All {demo.checked_bytes:,} payload bytes of the runs with Capulet went through Capulet.")
    print(f"\n{launcher.RANKS} ranks, medians of {TIMED_RUNS} interleaved runs; open and close included, no fsync.")
    print("Ratio: how many times as fast with Capulet as with Open MPI's own I/O.")
    print(tables.timing_table(demo.phases[WITH], demo.phases[WITHOUT]))
    print(f"\nThe relief, read back {demo.sides[0]} Capulet, with the outline of each rank's part: {MAP}")


def check_needs(data, sides):
    """Fails, with advice, if anything is missing that the demo does not make itself."""
    commands = [name for name in (launcher.MPIEXEC, MPICC, "ncdump", PYTHON[0]) if not shutil.which(name)]
    modules = [name for name in ("h5py", "mpi4py", "netCDF4", "matplotlib", "tqdm") if not importlib.util.find_spec(name)]
    files = [name for name in ("etopo5.cdf", "levitus_climatology.cdf") if not (data / name).is_file()]
    missing = commands + modules + [str(data / name) for name in files]
    if missing:
        raise DemoError(f"missing: {', '.join(missing)}. Run `make setup`, and run the demo with /usr/bin/python3.")
    built = (launcher.CAPULET, launcher.LIBRARY)
    if WITH in sides and not all(path.is_file() for path in built):
        raise DemoError(f"missing: {' or '.join(map(str, built))}. Run `make build`.")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="directory of etopo5.cdf and levitus_climatology.cdf")
    parser.add_argument(
        "--without-only", action="store_true", help="run on the MPI's own I/O only, to show that the programs are right"
    )
    return parser.parse_args()


def main():
    # A demo that gets SIGTERM must end its programs too. The exception does this on its way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    chosen = arguments()
    sides = [WITHOUT] if chosen.without_only else [WITH, WITHOUT]
    start = time.monotonic()
    try:
        check_needs(chosen.data, sides)
        OUT.mkdir(parents=True, exist_ok=True)
        with Progress(Demo.step_count(sides)) as progress:
            demo = Demo(chosen.data.resolve(), sides, progress)
            verified = demo.run()
        report(demo, verified)
    except (DemoError, OSError) as error:
        print(f"\ndemo: FAILED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    print(f"demo: passed in {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
