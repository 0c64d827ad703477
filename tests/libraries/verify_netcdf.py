"""Reads the file of pnetcdf_views.c with serial netCDF and compares every cell with its formula.

usage: verify_netcdf.py FOLDER RANKS
"""

import sys

import netCDF4
import numpy

ROWS, WIDTH, RECORDS = 12, 6, 4


def main():
    folder, ranks = sys.argv[1], int(sys.argv[2])
    compared = 0
    with netCDF4.Dataset(f"{folder}/views.nc") as file:
        for which, name in enumerate(("blocks", "comb", "independent", "queued", "records")):
            i, j = numpy.indices((RECORDS if name == "records" else ROWS, WIDTH * ranks))
            found = file[name][...]
            assert not numpy.ma.is_masked(found), f"{name} has unwritten cells"
            numpy.testing.assert_array_equal(found, which * 1000000 + i * 1000 + j, err_msg=name)
            compared += i.size
    print(f"{compared} values compared")


if __name__ == "__main__":
    main()
