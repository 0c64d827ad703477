"""Reads the file of hyperslabs.c with serial HDF5 and compares every cell with its formula.

usage: verify_hdf5.py FOLDER RANKS
"""

import sys

import numpy
from h5py import _debian_h5py_serial as h5py

ROWS, WIDTH = 24, 10


def main():
    folder, ranks = sys.argv[1], int(sys.argv[2])
    assert not h5py.get_config().mpi, "this must be the serial HDF5"
    i, j = numpy.indices((ROWS, WIDTH * ranks))
    compared = 0
    with h5py.File(f"{folder}/hyperslabs.h5", "r") as file:
        expected = {f"columns-{which}": which * 1000000 + i * 1000 + j for which in range(8)}
        for name, which in ("comb-independent", 8), ("comb-collective", 9):
            expected[name] = numpy.where(i % 2 == 0, which * 1000000 + i * 1000 + j, -7)
        assert sorted(file) == sorted([*expected, "compound-independent", "compound-collective"]), sorted(file)
        for name, cells in expected.items():
            numpy.testing.assert_array_equal(file[name][...], cells, err_msg=name)
            compared += cells.size
        for name in "compound-independent", "compound-collective":
            number = numpy.arange(16 * ranks)
            if ranks > 1:
                number[:16] = 0  # rank 0 wrote nothing
            numpy.testing.assert_array_equal(file[name]["number"], number, err_msg=name)
            numpy.testing.assert_array_equal(file[name]["value"], 0.5 * number, err_msg=name)
            compared += 2 * number.size
    print(f"{compared} values compared")


if __name__ == "__main__":
    main()
