# Thin on purpose: each target is one script, to be read in scripts/.
.PHONY: setup build demo test bench bench-datatype bench-files bench-locks verify lint clean
.DEFAULT_GOAL := build

# Debian packages, two Python environments and test sources in target/env. Idempotent.
setup:
	@scripts/setup.sh

# target/{openmpi,mpich}/release/capulet, target/{openmpi,mpich,mpich5}/release/libcapulet_*.so, and the benches of all MPIs
build: setup
	@scripts/build.sh

# HDF5 and PnetCDF programs on Capulet, on real data, compared cell by cell.
demo: build
	@/usr/bin/python3 tests/demo/run.py

# Format, clippy, documentation, and every test, on both MPIs.
test: lint build
	@scripts/test.sh

# Timings of the datatype engine and of files against the MPIs, few and short.
bench: build
	@scripts/bench.sh quick

# The same with full samples, and the figures of the MPITypes paper: target/bench/*.png. To be run on an idle machine.
bench-datatype: build
	@scripts/bench.sh datatype

# Files against OMPIO and ROMIO, in memory and on a disk, full samples. To be run on an idle machine; takes hours.
bench-files: build
	@scripts/bench.sh files

# Atomic mode against OMPIO and ROMIO, and its locks by themselves, on 4 and 8 ranks. To be run on an idle machine.
bench-locks: build
	@scripts/bench.sh locks

# Atomic mode: 10,000 rounds of each kind of access, on both MPIs. Takes hours.
verify: build
	@scripts/verify.sh

lint: setup
	@scripts/lint.sh

# Keeps target/env, which is not built here but fetched.
clean:
	rm -rf target/openmpi target/openmpi5 target/mpich target/mpich5 target/bench
