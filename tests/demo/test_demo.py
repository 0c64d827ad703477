"""Tests of the checks that make the demo fail: `/usr/bin/python3 -m unittest discover -s tests/demo`.
They start no MPI."""

import contextlib
import io
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

import accounting
import launcher
import tables
import verify
from launcher import DemoError

STATS = (
    "{noise}capulet-stats file={file} ranks=4 reads={reads} writes=2 read_bytes={read_bytes}"
    " written_bytes={written_bytes} pieces=9 system_calls=5 copied_bytes=100\n"
)


def stats_line(file, read_bytes=0, written_bytes=0, noise=""):
    return STATS.format(file=file, reads=1, read_bytes=read_bytes, written_bytes=written_bytes, noise=noise)


def phase(direction="write", byte_count=1000, file="output"):
    return accounting.Phase("case", direction, file, byte_count, 0.5)


class Accounting(unittest.TestCase):
    paths = {"output": "/no/such/out put.h5", "source": "/no/such/in.cdf"}

    def check(self, phases, text):
        accounting.check_all_through_capulet(phases, self.paths, accounting.parse_stats(text))

    def test_all_bytes_pass(self):
        text = stats_line("/no/such/out%20put.h5", 0, 1000) + stats_line("/no/such/in.cdf", 600, noise="[warning] ")
        self.check([phase(), phase("read", 600, "source")], text)

    def test_opens_of_one_file_add_up(self):
        text = stats_line("/no/such/out%20put.h5", 0, 400) + stats_line("/no/such/out%20put.h5", 0, 600)
        self.check([phase()], text)
        self.assertRaisesRegex(DemoError, "1,000 of 2,000", self.check, [phase(), phase()], text)

    def test_one_byte_less_fails(self):
        text = stats_line("/no/such/out%20put.h5", 0, 999)
        self.assertRaisesRegex(DemoError, "1 of 1,000 payload bytes", self.check, [phase()], text)

    def test_reads_do_not_count_as_writes(self):
        text = stats_line("/no/such/out%20put.h5", 1000, 0)
        self.assertRaisesRegex(DemoError, "did not go", self.check, [phase()], text)

    def test_missing_statistics_fail(self):
        self.assertRaisesRegex(DemoError, "do not name", self.check, [phase()], "")
        self.assertRaisesRegex(DemoError, "do not name", self.check, [phase()], stats_line("/no/such/in.cdf", 0, 1000))

    def test_incredible_statistics_fail(self):
        text = stats_line("/no/such/out%20put.h5", 0, 1000 + accounting.METADATA_LIMIT_BYTES + 1)
        self.assertRaisesRegex(DemoError, "cannot be believed", self.check, [phase()], text)

    def test_damaged_statistics_fail(self):
        line = stats_line("/no/such/out%20put.h5", 0, 1000)
        self.assertRaisesRegex(DemoError, "has no written_bytes", accounting.parse_stats, line.replace("written_", "w"))
        self.assertRaisesRegex(DemoError, "not a number", accounting.parse_stats, line.replace("=1000", "=many"))

    def test_statistics_without_capulet_fail(self):
        accounting.check_none_through_capulet("some warning of mpiexec\n")
        line = stats_line("/no/such/in.cdf")
        self.assertRaises(DemoError, accounting.check_none_through_capulet, line)

    def test_phases(self):
        line = "demo-phase case=a direction=read file=source bytes=12 seconds=0.25\n"
        phases = accounting.parse_phases("other output\n" + line)
        self.assertEqual(phases, [accounting.Phase("a", "read", "source", 12, 0.25)])
        accounting.check_phases(phases, {"a": 12})
        for expected in ({"a": 13}, {"a": 12, "b": 1}, {}):
            self.assertRaises(DemoError, accounting.check_phases, phases, expected)
        self.assertRaises(DemoError, accounting.check_phases, phases * 2, {"a": 12})
        self.assertRaises(DemoError, accounting.parse_phases, line.replace("=read", "=up"))


class Tables(unittest.TestCase):
    def test_medians_and_ratio(self):
        def runs(*seconds):
            return [accounting.Phase("h5-write", "write", "output", 4_000_000, each) for each in seconds]

        row = tables.timing_table(runs(1.0, 2.0, 9.0), runs(4.0, 3.0, 50.0)).splitlines()[-1]
        self.assertEqual(row.split()[-6:], ["4,000,000", "2.000", "4.000", "2", "1", "2.00"])

    def test_a_side_that_did_not_run(self):
        phases = [accounting.Phase("h5-write", "write", "output", 4_000_000, 2.0)]
        row = tables.timing_table(phases, []).splitlines()[-1]
        self.assertEqual(row.split()[-6:], ["4,000,000", "2.000", "-", "2", "-", "-"])


class Comparison(unittest.TestCase):
    def setUp(self):
        self.source = np.array([[1.0, -0.0, np.nan], [-1e34, 3.5, 1e-40]], np.float32)

    def compare(self, values):
        with contextlib.redirect_stdout(io.StringIO()):
            return verify.compare("what", values, self.source)

    def test_equal_bits(self):
        self.assertEqual(self.compare(self.source.copy()), 6)

    def test_one_bit(self):
        for place in np.ndindex(self.source.shape):
            values = self.source.copy()
            values.view(np.uint32)[place] ^= 1
            self.assertRaisesRegex(verify.Difference, r"1 of 6 cells differ", self.compare, values)

    def test_the_sign_of_zero_and_the_shape(self):
        values = self.source.copy()
        values[0, 1] = 0.0
        self.assertRaises(verify.Difference, self.compare, values)
        self.assertRaises(verify.Difference, self.compare, self.source.reshape(3, 2))

    def test_every_reader_gives_the_bits_back(self):
        import h5py
        import netCDF4

        source = np.array([[1.0, -0.0, 16777217.0], [-1e34, 0.1, 1e-40]], np.float32)
        with tempfile.TemporaryDirectory() as directory:
            classic, hdf5 = Path(directory, "a.nc"), Path(directory, "a.h5")
            with netCDF4.Dataset(classic, "w", format="NETCDF3_CLASSIC") as file:
                file.createDimension("y", 2)
                file.createDimension("x", 3)
                file.createVariable("V", "f4", ("y", "x"), fill_value=np.float32(-1e34))[:] = source
            with h5py.File(hdf5, "w") as file:
                file["V"] = source
            fill = np.float32(-1e34)
            for values in (
                verify.read_netcdf4(classic, "V"),
                verify.read_ncdump(classic, "V", (2, 3), fill),
                verify.read_h5py(hdf5, "V"),
            ):
                np.testing.assert_array_equal(values.view(np.uint32), source.view(np.uint32))
            self.assertRaises(verify.Difference, verify.read_ncdump, classic, "V", (3, 3), fill)
            self.assertRaises(verify.Difference, verify.read_ncdump, classic, "W", (2, 3), fill)


def has_ended(pid):
    """Whether a process is gone, or dead and not yet reaped. The process gets a moment to die."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


class Launcher(unittest.TestCase):
    def run_shell(self, script, limit_seconds=10):
        return launcher.run(["/bin/sh", "-c", script], dict(os.environ), limit_seconds, lambda: None)

    def test_output(self):
        self.assertEqual(self.run_shell("echo out; echo err >&2"), ("out\n", "err\n"))

    def test_exit_code(self):
        self.assertRaisesRegex(DemoError, "(?s)exit code 3.*\\| why", self.run_shell, "echo why >&2; exit 3")
        self.assertRaisesRegex(DemoError, "cannot start", launcher.run, ["/no/such"], {}, 1, lambda: None)

    def test_time_limit_ends_the_whole_group(self):
        with tempfile.TemporaryDirectory() as directory:
            pid_file = Path(directory, "pid")
            script = f"sleep 60 & echo $! >{pid_file}; wait"
            start = time.monotonic()
            self.assertRaisesRegex(DemoError, "did not end", self.run_shell, script, limit_seconds=1)
            self.assertLess(time.monotonic() - start, 30)
            child = int(pid_file.read_text())
            self.assertTrue(has_ended(child))

    def test_environment(self):
        os.environ["CAPULET_LOG"] = "off"
        os.environ["LD_PRELOAD"] = ""
        try:
            without, with_capulet = launcher.environment(False), launcher.environment(True)
        finally:
            del os.environ["CAPULET_LOG"], os.environ["LD_PRELOAD"]
        self.assertFalse([key for key in without if key.startswith("CAPULET_") or key == "LD_PRELOAD"])
        self.assertEqual((with_capulet["CAPULET_LOG"], with_capulet["CAPULET_STATS"]), ("off", "1"))
        self.assertNotIn("LD_PRELOAD", with_capulet)


if __name__ == "__main__":
    sys.exit(unittest.main())
