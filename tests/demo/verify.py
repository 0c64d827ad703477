#!/usr/bin/python3
"""Compares the output of the demo's programs with the source, cell by cell, by serial readers that do not
know Capulet.

    verify.py DATA_DIRECTORY DIRECTORY...

Each DIRECTORY holds `fields.h5`, `relief_blocks.nc` and `relief_columns.nc` of one side: with Capulet, or
without it. The readers are serial h5py, netCDF4 and `ncdump`. Equal means equal bit by bit, so missing
values and the sign of zero count too. Prints one line for each comparison, and ends with an error at the
first difference.
"""

import subprocess
import sys
from pathlib import Path

import h5py
import netCDF4
import numpy as np

ETOPO5, RELIEF = "etopo5.cdf", "ROSE"
LEVITUS, TEMPERATURE = "levitus_climatology.cdf", "TEMP"
HDF5_OUTPUT, NETCDF_OUTPUTS = "fields.h5", ("relief_blocks.nc", "relief_columns.nc")

NCDUMP_LIMIT_SECONDS = 60


class Difference(Exception):
    """Two fields that should be equal differ, or one cannot be read."""


def read_netcdf4(path, name):
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        return native(file[name][...])


def read_h5py(path, name):
    with h5py.File(path, "r") as file:
        return native(file[name][...])


def read_ncdump(path, name, shape, fill):
    """Reads the cells from the text that ncdump prints. 9 digits give each 32-bit float back exactly."""
    command = ["ncdump", "-p", "9,17", "-v", name, str(path)]
    run = subprocess.run(command, capture_output=True, timeout=NCDUMP_LIMIT_SECONDS, check=False)
    if run.returncode != 0:
        raise Difference(f"ncdump cannot read {path}: {run.stderr.decode(errors='replace').strip()}")
    _, mark, cells = run.stdout.partition(f"\n {name} =".encode())
    cells, end, _ = cells.partition(b";")
    if not mark or not end:
        raise Difference(f"ncdump prints no {name} of {path}")
    if b"_" in cells:
        cells = cells.replace(b"_", repr(float(fill)).encode())
    values = np.fromstring(cells.decode(), np.float64, sep=",").astype(np.float32)
    if values.size != np.prod(shape):
        raise Difference(f"ncdump prints {values.size:,} cells of {path} {name}, not {np.prod(shape):,}")
    return values.reshape(shape)


def native(values):
    """Converts floats to this machine's byte order, and nothing else."""
    if values.dtype.newbyteorder("=") != np.float32:
        raise Difference(f"32-bit floats are wanted, not {values.dtype}")
    return np.ascontiguousarray(values.astype(np.float32, copy=False))


def compare(what, values, source):
    """Prints the number of equal cells, or fails with the place of the first difference."""
    if values.shape != source.shape:
        raise Difference(f"{what}: the shape is {values.shape}, the source's is {source.shape}")
    different = values.view(np.uint32) != source.view(np.uint32)
    if different.any():
        place = tuple(int(index) for index in np.unravel_index(np.argmax(different), different.shape))
        raise Difference(
            f"{what}: {np.count_nonzero(different):,} of {source.size:,} cells differ;"
            f" the first at {place}: {values[place]!r}, in the source {source[place]!r}"
        )
    print(f"{source.size:>10,} cells equal: {what}", flush=True)
    return source.size


def verify_side(directory, relief, temperature, fill):
    """Compares all files of one side with the source."""
    label = directory.name
    cells = 0
    for name, source in ((RELIEF, relief), (TEMPERATURE, temperature)):
        path = directory / HDF5_OUTPUT
        cells += compare(f"{label}/{path.name} {name}, serial h5py", read_h5py(path, name), source)
    for output in NETCDF_OUTPUTS:
        path = directory / output
        cells += compare(f"{label}/{output} {RELIEF}, netCDF4", read_netcdf4(path, RELIEF), relief)
        values = read_ncdump(path, RELIEF, relief.shape, fill)
        cells += compare(f"{label}/{output} {RELIEF}, ncdump", values, relief)
    return cells


def verify_same(first, second):
    """Compares the data of the two sides with each other."""
    cells = 0
    labels = f"{first.name} and {second.name}"
    for name in (RELIEF, TEMPERATURE):
        sides = [read_h5py(side / HDF5_OUTPUT, name) for side in (first, second)]
        cells += compare(f"{labels}: {HDF5_OUTPUT} {name}", *sides)
    for output in NETCDF_OUTPUTS:
        sides = [read_netcdf4(side / output, RELIEF) for side in (first, second)]
        cells += compare(f"{labels}: {output} {RELIEF}", *sides)
    return cells


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    data, *sides = (Path(argument) for argument in sys.argv[1:])
    if h5py.get_config().mpi or "libcapulet" in Path("/proc/self/maps").read_text():
        raise SystemExit("verify: the readers must be serial, and without Capulet")
    try:
        relief = read_netcdf4(data / ETOPO5, RELIEF)
        temperature = read_netcdf4(data / LEVITUS, TEMPERATURE)
        with netCDF4.Dataset(data / ETOPO5) as file:
            fill = file[RELIEF].getncattr("_FillValue")
        cells = sum(verify_side(side, relief, temperature, fill) for side in sides)
        cells += sum(verify_same(sides[0], side) for side in sides[1:])
    except (Difference, OSError, KeyError, IndexError, subprocess.TimeoutExpired) as error:
        raise SystemExit(f"verify: {error}") from error
    print(f"{cells:>10,} cells compared in all, none differs")


if __name__ == "__main__":
    main()
