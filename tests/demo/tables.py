"""Formats the demo's two tables as text."""

import os
import statistics

# The cases and their names in the table, in the order of the table.
CASES = {
    "h5-source-etopo5": "a. read ETOPO5 in 2-D parts (PnetCDF)",
    "h5-source-levitus": "a. read Levitus TEMP in 3-D parts (PnetCDF)",
    "h5-write": "a. write both, chunked (parallel h5py)",
    "h5-read-back": "a. read both back (parallel h5py)",
    "pnetcdf-blocks-read": "b. read ETOPO5 in column blocks (PnetCDF)",
    "pnetcdf-blocks-write": "b. write column blocks (PnetCDF)",
    "pnetcdf-columns-write": "b. write every 4th column (PnetCDF), once",
    "pnetcdf-columns-check": "b. read every 4th column (PnetCDF), once",
}


def megabytes_per_second(byte_count, seconds):
    return byte_count / 1e6 / seconds


def timing_row(case, with_phases, without_phases):
    """Returns one row: medians of all runs of a case, and `-` for a side that did not run it."""
    byte_count = (with_phases or without_phases)[0].bytes
    sides = [statistics.median(phase.seconds for phase in side) if side else None for side in (with_phases, without_phases)]
    cells = [CASES[case], f"{byte_count:,}"]
    cells += ["-" if seconds is None else f"{seconds:.3f}" for seconds in sides]
    cells += ["-" if seconds is None else f"{megabytes_per_second(byte_count, seconds):,.0f}" for seconds in sides]
    cells.append("-" if None in sides else f"{sides[1] / sides[0]:.2f}")
    return cells


def timing_table(with_phases, without_phases):
    """Returns the table of all cases. Each argument is the list of the phases of all runs of one side."""
    header = ["case", "bytes", "s with", "s without", "MB/s with", "MB/s without", "ratio"]
    rows = []
    for case in CASES:
        sides = [[phase for phase in side if phase.case == case] for side in (with_phases, without_phases)]
        if any(sides):
            rows.append(timing_row(case, *sides))
    return align(header, rows)


def stats_table(programs):
    """Returns the table of Capulet's counters. `programs` is a list of (program's name, statistics by
    path)."""
    header = ["program", "file", "read bytes", "written bytes", "calls", "pieces", "system calls", "copied/byte"]
    rows = []
    for name, stats in programs:
        for path, counters in sorted(stats.items()):
            moved_bytes = counters["read_bytes"] + counters["written_bytes"]
            copied = f"{counters['copied_bytes'] / moved_bytes:.2f}" if moved_bytes else "-"
            calls = counters["reads"] + counters["writes"]
            numbers = (counters["read_bytes"], counters["written_bytes"], calls, counters["pieces"], counters["system_calls"])
            rows.append([name, os.path.basename(path), *(f"{number:,}" for number in numbers), copied])
    return align(header, rows)


def align(header, rows):
    """Makes columns as wide as their widest cell. Words are aligned to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    words = sum(1 for name in header if name in ("case", "program", "file"))
    lines = []
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
