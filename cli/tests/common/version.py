# The same as version.c for mpi4py. MPI is initialized and finalized as usual.
import os
import subprocess
import sys

from mpi4py import MPI

lines = ["interposed " + ("yes" if MPI.Get_version()[1] >= 1000 else "no")]
lines += ["argument " + argument for argument in sys.argv[1:]]
with open("/proc/self/maps") as maps:
    for line in maps:
        if "/libmpi" in line and "r-xp" in line:
            lines.append("mapped " + line[line.index("/"):].strip())
# Child processes get the preload too and must not fail because of it.
lines.append("child %d" % subprocess.run(["/bin/true"]).returncode)
lines.append("size %d" % MPI.COMM_WORLD.Get_size())
# Each rank writes once, so that the lines of two ranks do not mix.
os.write(1, ("\n".join(lines) + "\n").encode())
