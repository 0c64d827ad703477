"""Code that the demo's parallel Python programs share: their input, the division into parts, and the
timing of a phase.

The input is classic netCDF. The programs read it with PnetCDF, called through ctypes, so that each rank
reads its own part by collective MPI-IO.
"""

import contextlib
import ctypes

import numpy as np
from mpi4py import MPI

NC_NOWRITE = 0
NC_FLOAT = 5


class ClassicFile:
    """A classic netCDF file, open for reading on all ranks of a communicator. Open and close are
    collective."""

    def __init__(self, comm, path):
        self._library = ctypes.CDLL("libpnetcdf.so")
        self._library.ncmpi_strerror.restype = ctypes.c_char_p
        self._path = path
        self._id = ctypes.c_int()
        comm_handle = ctypes.c_void_p.from_address(MPI._addressof(comm))
        info_handle = ctypes.c_void_p.from_address(MPI._addressof(MPI.INFO_NULL))
        self._call("ncmpi_open", comm_handle, path.encode(), NC_NOWRITE, info_handle, ctypes.byref(self._id))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._call("ncmpi_close", self._id)

    def _call(self, function, *arguments):
        status = getattr(self._library, function)(*arguments)
        if status != 0:
            reason = self._library.ncmpi_strerror(status).decode()
            raise OSError(f"{function} {self._path}: {reason}")

    def _variable(self, name):
        variable = ctypes.c_int()
        self._call("ncmpi_inq_varid", self._id, name.encode(), ctypes.byref(variable))
        return variable

    def shape(self, name):
        """Returns the lengths of a variable's dimensions, slowest first. The variable must hold 32-bit
        floats."""
        variable = self._variable(name)
        kind, count = ctypes.c_int(), ctypes.c_int()
        self._call("ncmpi_inq_vartype", self._id, variable, ctypes.byref(kind))
        if kind.value != NC_FLOAT:
            raise OSError(f"{self._path}: {name} does not hold 32-bit floats")
        self._call("ncmpi_inq_varndims", self._id, variable, ctypes.byref(count))
        dimensions = (ctypes.c_int * count.value)()
        self._call("ncmpi_inq_vardimid", self._id, variable, dimensions)
        lengths = []
        for dimension in dimensions:
            length = ctypes.c_longlong()
            self._call("ncmpi_inq_dimlen", self._id, ctypes.c_int(dimension), ctypes.byref(length))
            lengths.append(length.value)
        return tuple(lengths)

    def read(self, name, part):
        """Collective. Reads one rank's part, a tuple of slices, of a variable of 32-bit floats."""
        values = np.empty([axis.stop - axis.start for axis in part], np.float32)
        offsets = ctypes.c_longlong * len(part)
        self._call(
            "ncmpi_get_vara_float_all",
            self._id,
            self._variable(name),
            offsets(*[axis.start for axis in part]),
            offsets(*values.shape),
            values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
        )
        return values


def part_of_rank(shape, chunks, rank, ranks):
    """Returns the box of whole chunks that one rank owns, as slices. The ranks form a grid with as many
    dimensions as the field has."""
    grid = MPI.Compute_dims(ranks, len(shape))
    place = np.unravel_index(rank, grid)
    part = []
    for length, chunk, parts, index in zip(shape, chunks, grid, place):
        chunk_count = -(-length // chunk)
        first, last = (int(chunk_count * i // parts) for i in (index, index + 1))
        part.append(slice(min(first * chunk, length), min(last * chunk, length)))
    return tuple(part)


@contextlib.contextmanager
def phase(comm, case, direction, file, arrays):
    """Collective. Times the block inside. Rank 0 prints one line for the demo's driver.

    `arrays` is a list that holds this rank's payload when the block ends. The time is that of the slowest
    rank.
    """
    comm.Barrier()
    start = MPI.Wtime()
    yield
    seconds = comm.allreduce(MPI.Wtime() - start, MPI.MAX)
    total_bytes = comm.allreduce(sum(array.nbytes for array in arrays), MPI.SUM)
    if comm.rank == 0:
        print(
            f"demo-phase case={case} direction={direction} file={file} bytes={total_bytes} seconds={seconds:.6f}",
            flush=True,
        )


def same_bits(left, right):
    """Whether two arrays of 32-bit floats are equal bit by bit: NaN equals itself, and -0 does not equal
    0."""
    return left.shape == right.shape and np.array_equal(left.view(np.uint32), right.view(np.uint32))
