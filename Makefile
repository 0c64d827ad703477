# Each target runs one script. Read the scripts in scripts/.
.PHONY: setup build demo test test-long test-nodes quick bench bench-datatype bench-files bench-locks verify lint clean
.DEFAULT_GOAL := build

# Installs Debian packages, two Python environments and test sources in target/env. A second run does
# nothing.
setup:
	@scripts/setup.sh

# Builds target/{openmpi,mpich}/release/capulet, target/{openmpi,mpich,mpich5}/release/libcapulet_*.so,
# and the benches of all MPIs.
build: setup
	@scripts/build.sh

# Runs HDF5 and PnetCDF programs on Capulet, on real data, and compares the results cell by cell.
demo: build
	@/usr/bin/python3 tests/demo/run.py

# Checks format, clippy and documentation, and runs every test on both MPIs. Ends with a table of times.
test:
	@scripts/test.sh

# As `make test`, with more random cases and more ranks: hours.
test-long:
	@CAPULET_TEST_LONG=1 PROPTEST_CASES=50000 scripts/test.sh

# Runs programs between real nodes: network namespaces with their own network, /dev/shm and process numbers.
# Needs root. Two minutes.
test-nodes: build
	@scripts/test-nodes.sh

# Checks the crates that differ from the last commit, or CRATES="datatype comm", on Open MPI: format, clippy,
# their tests, and a few programs on the built library. Under two minutes after the first build.
quick: setup
	@scripts/quick.sh $(CRATES)

# Times the datatype engine and file access against the MPIs, with few and short samples.
bench: build
	@scripts/bench.sh quick

# Times the datatype engine with full samples and draws the figures of the MPITypes paper:
# target/bench/*.png. Run it on an idle machine.
bench-datatype: build
	@scripts/bench.sh datatype

# Times file access against OMPIO and ROMIO, in memory and on a disk, with full samples. Takes hours. Run
# it on an idle machine.
bench-files: build
	@scripts/bench.sh files

# Times atomic mode against OMPIO and ROMIO, and its locks by themselves, on 4 and 8 ranks. Run it on an
# idle machine.
bench-locks: build
	@scripts/bench.sh locks

# Verifies atomic mode: 10,000 rounds of each kind of access on both MPIs. Takes hours.
verify: build
	@scripts/verify.sh

lint: setup
	@scripts/lint.sh

# Keeps target/env, which is downloaded and not built.
clean:
	rm -rf target/openmpi target/openmpi5 target/mpich target/mpich5 target/bench
