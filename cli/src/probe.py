# `capulet run` runs this file with the interpreter of the user's program. It prints the MPI libraries
# that mpi4py loads into the process. MPI is not initialized. The argument is the folder that the
# interpreter would put first in its search path.
import os
import sys

if not (getattr(sys.flags, "safe_path", False) or sys.flags.isolated):
    sys.path[0] = sys.argv[1]


def mpi4py():
    import mpi4py

    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    from mpi4py import MPI  # noqa: F401


def h5py():
    # Debian's h5py loads its MPI build only if it sees a launcher or this variable.
    os.environ["H5PY_ALWAYS_USE_MPI"] = "1"
    import h5py

    if not h5py.get_config().mpi:
        raise ImportError("h5py is not the MPI build")


failures = []
for module in (mpi4py, h5py):
    try:
        module()
        break
    except (ImportError, RuntimeError) as failure:
        failures.append("%s: %s" % (module.__name__, failure))
else:
    os.write(1, ("capulet-failure:" + "; ".join(failures).replace("\n", " ") + "\n").encode())
    sys.exit(0)

paths = set()
with open("/proc/self/maps", "rb") as maps:
    for line in maps:
        fields = line.rstrip(b"\n").split(None, 5)
        if len(fields) == 6 and os.path.basename(fields[5]).startswith(b"libmpi"):
            paths.add(fields[5])
for path in sorted(paths):
    os.write(1, b"capulet-library:" + path + b"\n")
