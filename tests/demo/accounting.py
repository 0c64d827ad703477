"""Reads what the programs and the library report (phases and statistics), and checks that every payload
byte went through Capulet."""

import collections
import dataclasses
import os
import urllib.parse

from launcher import DemoError

# The libraries write and read their own metadata beside the payload: headers, B-trees, attributes. A file
# with more than this would show that the statistics count something else than the bytes of the file.
METADATA_LIMIT_BYTES = 4 << 20

PHASE_MARK = "demo-phase "
STATS_MARK = "capulet-stats "
STATS_COUNTERS = ("reads", "writes", "read_bytes", "written_bytes", "pieces", "system_calls", "copied_bytes")


@dataclasses.dataclass(frozen=True)
class Phase:
    """One timed collective step of a program. Bytes are payload, over all ranks; seconds are the slowest
    rank's."""

    case: str
    direction: str
    file: str
    bytes: int
    seconds: float


def key_values(text, mark):
    """Yields one dictionary of the `key=value` words after `mark` for each line that has the mark."""
    for line in text.splitlines():
        _, found, rest = line.partition(mark)
        if found:
            yield dict(word.partition("=")[::2] for word in rest.split())


def parse_phases(stdout):
    phases = []
    for words in key_values(stdout, PHASE_MARK):
        phase = Phase(words["case"], words["direction"], words["file"], int(words["bytes"]), float(words["seconds"]))
        if phase.direction not in ("read", "write"):
            raise DemoError(f"a program reported an unknown direction: {phase}")
        phases.append(phase)
    return phases


def parse_stats(stderr):
    """Returns Capulet's counters by file, summed over all opens of the file."""
    totals = collections.defaultdict(collections.Counter)
    for words in key_values(stderr, STATS_MARK):
        missing = [name for name in ("file", *STATS_COUNTERS) if name not in words]
        if missing:
            raise DemoError(f"a line of Capulet's statistics has no {', '.join(missing)}: {words}")
        try:
            counters = {name: int(words[name]) for name in STATS_COUNTERS}
        except ValueError as error:
            raise DemoError(f"a line of Capulet's statistics has a counter that is not a number: {words}") from error
        totals[os.path.realpath(urllib.parse.unquote(words["file"]))].update(counters)
    return totals


def check_phases(phases, expected_bytes):
    """Fails unless a program ran every phase once, and moved the whole field in each phase."""
    found = {phase.case: phase.bytes for phase in phases}
    if len(found) != len(phases) or found != expected_bytes:
        raise DemoError(f"a program moved other bytes than it should: {found} instead of {expected_bytes}")


def payload_of(phases, paths):
    """Returns the payload bytes by (path, direction). `paths` gives the path for each file label of a
    program."""
    payload = collections.Counter()
    for phase in phases:
        payload[os.path.realpath(paths[phase.file]), phase.direction] += phase.bytes
    return payload


def check_all_through_capulet(phases, paths, stats):
    """Fails unless the statistics hold every payload byte of every phase."""
    for (path, direction), payload_bytes in sorted(payload_of(phases, paths).items()):
        if path not in stats:
            raise DemoError(f"Capulet's statistics do not name {path}: the program did not use Capulet for it")
        counted_bytes = stats[path]["read_bytes" if direction == "read" else "written_bytes"]
        if counted_bytes < payload_bytes:
            raise DemoError(
                f"{path}: {payload_bytes - counted_bytes:,} of {payload_bytes:,} payload bytes ({direction}) did not go"
                f" through Capulet, which counted {counted_bytes:,}"
            )
        if counted_bytes > payload_bytes + METADATA_LIMIT_BYTES:
            raise DemoError(
                f"{path}: Capulet counted {counted_bytes:,} bytes ({direction}) where the payload is {payload_bytes:,}:"
                " the statistics cannot be believed"
            )


def check_none_through_capulet(stderr):
    """Fails if a run that should use the MPI's own I/O used Capulet."""
    if STATS_MARK in stderr:
        raise DemoError("a run without Capulet printed Capulet's statistics, so it used Capulet")
