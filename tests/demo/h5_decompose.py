#!/usr/bin/python3
"""Writes the ETOPO5 relief and the Levitus temperatures to one chunked HDF5 file, in parallel, and reads
it back.

    mpiexec -n 4 /usr/bin/python3 -m mpi4py h5_decompose.py ETOPO5 LEVITUS OUTPUT

This is an ordinary parallel h5py program that knows nothing of Capulet. Each rank reads its part of both
fields (a box of a 2-D and of a 3-D grid of ranks). All ranks write collectively. Then each rank reads its
neighbor's part back collectively and compares it.
"""

import sys

import h5py
import numpy as np
from mpi4py import MPI

from fields import ClassicFile, part_of_rank, phase, same_bits

# Variable and chunk. 271 does not divide the 2161 rows, so the last chunks are partly empty.
RELIEF = ("ROSE", (271, 540))
TEMPERATURE = ("TEMP", (5, 45, 90))


class Field:
    """One variable: its shape, its chunks, and the part and the values of this rank."""

    def __init__(self, name, chunks):
        self.name = name
        self.chunks = chunks
        self.shape = None
        self.values = None

    def part(self, rank, ranks):
        return part_of_rank(self.shape, self.chunks, rank, ranks)

    def read_source(self, comm, path, label):
        arrays = []
        with phase(comm, f"h5-source-{label}", "read", label, arrays):
            with ClassicFile(comm, path) as source:
                self.shape = source.shape(self.name)
                self.values = source.read(self.name, self.part(comm.rank, comm.size))
            arrays.append(self.values)


def write(comm, path, fields):
    with phase(comm, "h5-write", "write", "output", [field.values for field in fields]):
        with h5py.File(path, "w", driver="mpio", comm=comm) as file:
            for field in fields:
                dataset = create(file, field)
                with dataset.collective:
                    dataset[field.part(comm.rank, comm.size)] = field.values


def create(file, field):
    """Creates a chunked dataset without fill values. Every cell is written, so the file gets each byte of
    data once."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk(field.chunks)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple(field.shape)
    name = field.name.encode()
    return h5py.Dataset(h5py.h5d.create(file.id, name, h5py.h5t.IEEE_F32LE, space, properties))


def read_back(comm, path, fields):
    """Each rank reads the part that the next rank has written."""
    owner = (comm.rank + 1) % comm.size
    arrays = []
    with phase(comm, "h5-read-back", "read", "output", arrays):
        with h5py.File(path, "r", driver="mpio", comm=comm) as file:
            for field in fields:
                dataset = file[field.name]
                with dataset.collective:
                    arrays.append(dataset[field.part(owner, comm.size)])
    for field, values in zip(fields, arrays):
        written = comm.sendrecv(field.values, dest=(comm.rank - 1) % comm.size, source=owner)
        if not same_bits(values, written):
            raise SystemExit(f"h5_decompose: {field.name}: rank {comm.rank} read other data than rank {owner} wrote")


def main():
    comm = MPI.COMM_WORLD
    if not h5py.get_config().mpi:
        raise SystemExit("h5_decompose: this h5py is not the MPI build (Debian: python3-h5py-mpi)")
    if len(sys.argv) != 4:
        raise SystemExit("usage: h5_decompose.py ETOPO5 LEVITUS OUTPUT")
    etopo5, levitus, output = sys.argv[1:]
    relief, temperature = Field(*RELIEF), Field(*TEMPERATURE)
    relief.read_source(comm, etopo5, "etopo5")
    temperature.read_source(comm, levitus, "levitus")
    write(comm, output, [relief, temperature])
    read_back(comm, output, [relief, temperature])


if __name__ == "__main__":
    main()
