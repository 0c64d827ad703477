"""Checks the libraries in a Python process that has used MPI-IO: one MPI library, and Capulet's library
if expected.

usage: mpiexec -n N [capulet run] python3 mapped.py FOLDER MPI_LIBRARY_FOLDER CAPULET_LIBRARY|none
"""

import os
import sys

from mpi4py import MPI


def main():
    folder, mpi_folder, expected = sys.argv[1:4]
    comm = MPI.COMM_WORLD
    path = os.path.join(folder, "mapped")
    file = MPI.File.Open(comm, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
    file.Write_at_all(comm.rank, b"z")
    back = bytearray(comm.size)
    file.Sync()
    comm.Barrier()
    file.Sync()
    file.Read_at_all(0, back)
    file.Close()
    assert bytes(back) == b"z" * comm.size, back
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
    libraries = {p for p in paths if os.path.basename(p).startswith(("libmpi.so", "libmpich.so", "libmpi_abi.so"))}
    assert len(libraries) == 1, f"expected one MPI library, found {libraries}"
    library = os.path.realpath(libraries.pop())
    assert library.startswith(os.path.realpath(mpi_folder) + os.sep), f"{library} is not from {mpi_folder}"
    ours = {os.path.basename(p) for p in paths if os.path.basename(p).startswith("libcapulet")}
    assert ours == (set() if expected == "none" else {expected}), f"Capulet's libraries are {ours}, expected {expected}"
    if comm.rank == 0:
        print("1 MPI library is mapped")


if __name__ == "__main__":
    main()
