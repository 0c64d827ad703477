#!/usr/bin/python3
"""Reads the relief back from the HDF5 file and draws it. Each rank reads its part; the map outlines the
parts.

    mpiexec -n 4 /usr/bin/python3 -m mpi4py relief_map.py HDF5 PNG
"""

import sys

import h5py
import numpy as np
from mpi4py import MPI

from fields import part_of_rank, phase
from h5_decompose import RELIEF

# The map shows every `STEP`th cell of each dimension. All cells are read.
STEP = 3
CELLS_PER_DEGREE = 12


def read_part(comm, path):
    """Collective. Returns the shape of the relief, and this rank's part and its values."""
    name, _ = RELIEF
    arrays = []
    with phase(comm, "map-read", "read", "output", arrays):
        with h5py.File(path, "r", driver="mpio", comm=comm) as file:
            dataset = file[name]
            part = part_of_rank(dataset.shape, dataset.chunks, comm.rank, comm.size)
            with dataset.collective:
                values = dataset[part]
            arrays.append(values)
            shape = dataset.shape
    return shape, part, values


def gather(comm, shape, part, values):
    """Collective. Returns the thinned field and all parts on rank 0. Thinning keeps the cells whose
    global index is a multiple of STEP."""
    thinned = values[tuple(slice(-axis.start % STEP, None, STEP) for axis in part)]
    gathered = comm.gather((part, np.ascontiguousarray(thinned)))
    if comm.rank != 0:
        return None, None
    field = np.full([-(-length // STEP) for length in shape], np.nan, np.float32)
    for part, thinned in gathered:
        rows, columns = (-(-axis.start // STEP) for axis in part)
        field[rows : rows + thinned.shape[0], columns : columns + thinned.shape[1]] = thinned
    return field, [part for part, _ in gathered]


def draw(path, field, parts):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

    sea = plt.get_cmap("Blues_r")(np.linspace(0.0, 0.8, 128))
    land = plt.get_cmap("gist_earth")(np.linspace(0.5, 1.0, 128))
    colors = LinearSegmentedColormap.from_list("relief", np.vstack([sea, land]))

    figure, axes = plt.subplots(figsize=(12, 6.4), constrained_layout=True)
    image = axes.imshow(
        field, origin="lower", extent=(0, 360, -90, 90), cmap=colors, norm=TwoSlopeNorm(0, -8000, 6000)
    )
    for rank, (rows, columns) in enumerate(parts):
        west, east = (column / CELLS_PER_DEGREE for column in (columns.start, columns.stop))
        south, north = (row / CELLS_PER_DEGREE - 90 for row in (rows.start, rows.stop))
        north = min(north, 90)
        outline = plt.Rectangle((west, south), east - west, north - south, fill=False, edgecolor="crimson", lw=2.5)
        axes.add_patch(outline)
        axes.text(
            west + 4, north - 5, f"rank {rank}", color="white", weight="bold", va="top",
            bbox={"facecolor": "crimson", "edgecolor": "none", "pad": 4},
        )  # fmt: skip
    axes.set(xlabel="longitude (degrees east)", ylabel="latitude (degrees north)")
    axes.set(xticks=range(0, 361, 60), yticks=range(-90, 91, 30))
    axes.set_title("ETOPO5 relief, read back from HDF5 by parallel h5py: each rank's part")
    figure.colorbar(image, ax=axes, label="height (m)", shrink=0.85)
    figure.savefig(path, dpi=110)


def main():
    comm = MPI.COMM_WORLD
    if len(sys.argv) != 3:
        raise SystemExit("usage: relief_map.py HDF5 PNG")
    source, png = sys.argv[1:]
    field, parts = gather(comm, *read_part(comm, source))
    if comm.rank == 0:
        if np.isnan(field).any():
            raise SystemExit("relief_map: the ranks' parts do not cover all cells of the relief")
        draw(png, field, parts)


if __name__ == "__main__":
    main()
