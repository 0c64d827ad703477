#!/usr/bin/env python3
"""Makes several nodes on one machine, so that MPI jobs run between real nodes.

Each node has its own network, host name, process numbers, /dev/shm and folder for temporary files. The nodes
reach each other over Ethernet: MPI sees no shared memory between them, sends messages by TCP, and starts
ranks by a remote shell. The nodes share the other file systems of the machine. Node k is called nk.

  nodes.py hold COUNT [--delay MICROSECONDS]   make nodes n1 .. nCOUNT until the standard input ends
  nodes.py on HOLDER NODE WORD...              run a command on a node, with this environment
  nodes.py mpi HOLDER RANKS WORD...            run a command on n1; its MPI launchers start ranks on all nodes
  nodes.py end HOLDER [NODE...]                kill all processes on some nodes, or on all nodes

HOLDER is the process number of `hold`. RANKS is the number of ranks on each node, such as 2,2 or 1,2,1. For
example, with Open MPI and with MPICH, and with a command that starts a launcher itself:

  nodes.py mpi HOLDER 2,2 mpiexec.openmpi -n 4 capulet run -- ./program
  nodes.py mpi HOLDER 1,2 mpiexec.mpich -n 3 capulet run -- ./program
  nodes.py mpi HOLDER 2,2 capulet bench collective --ranks 4

Needs root, iproute2, util-linux and gcc; a delay needs /dev/net/tun. `hold` exits with 3 if this machine
cannot have nodes.

Everything that makes up a set of nodes lives in namespaces of `hold`: a network with the bridge, process
numbers, and mounts. So sets do not see each other, and the kernel removes a set when `hold` ends, however
it ends. Only an empty folder stays if `hold` is killed; the next `hold` removes the folder.
"""
import argparse
import glob
import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PYTHON = "/usr/bin/python3"
HERE = os.path.dirname(os.path.realpath(__file__))
THIS = os.path.join(HERE, "nodes.py")
NAMESPACES = "--mount --net --pid --fork --kill-child --mount-proc --propagation private".split()
LAUNCHERS = ["mpiexec.openmpi", "mpiexec.mpich"]
# The folder of a set is FOLDER, the process number of its holder, a dash, and a random text.
FOLDER = "capulet-nodes-"
RANKS_VARIABLE = "CAPULET_TEST_NODES"
# The nodes have one network each, and more ranks than cores.
OPEN_MPI_SETTINGS = {
    "btl_tcp_if_include": "eth0",
    "oob_tcp_if_include": "eth0",
    "mpi_yield_when_idle": "1",
}
# Variables of a node, of its shell, and of Open MPI, which a rank does not get from n1.
OWN_VARIABLES = ("HOME", "HOSTNAME", "OLDPWD", "OMPI_", "PATH", "PMIX_", "PWD", "SHLVL", "TMPDIR", "_")
# Exit status for a machine or a user that cannot have nodes.
IMPOSSIBLE = 3
# Time in seconds in which a node starts on a busy machine.
START_LIMIT = 60


def address(number):
    return f"10.77.0.{number}"


def run(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)


# ---- The remote shell -----------------------------------------------------------------------------------


def serve(state, number):
    """Process 1 of a node: completes the namespaces of the node, then runs what `call` asks for."""
    own = f"{state}/n{number}"
    run("mount", "-t", "tmpfs", "tmpfs", "/dev/shm")
    run("mount", "--bind", f"{state}/hosts", "/etc/hosts")
    socket.sethostname(f"n{number}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The kernel reaps orphans.
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{own}/unready")
    listener.listen(64)
    os.rename(f"{own}/unready", f"{own}/socket")
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            answer(connection)
        connection.close()


def answer(connection):
    """Runs the command of one connection. The command ends when its caller ends."""
    data, streams, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while not data.endswith(b"\0"):
        more = connection.recv(1 << 16)
        if not more:
            os._exit(0)
        data += more
    request = json.loads(data[:-1])
    if request["kill"]:
        # kill(2): all processes of this PID namespace except its process 1 and the caller.
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass
        connection.send(b"\0")
        os._exit(0)
    child = os.fork()
    if child == 0:
        execute(request, streams)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([connection, ended], [], [])
    if ended not in ready:
        os.killpg(child, signal.SIGKILL)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.send(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def execute(request, streams):
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    try:
        os.chdir(request["folder"])
        os.execvpe(request["words"][0], request["words"], {**os.environ, **request["environment"]})
    except OSError as error:
        os.write(2, f"{socket.gethostname()}: {request['words'][0]}: {error}\n".encode())
    os._exit(127)


def call(state, node, words, folder="/", environment=None, kill=False):
    """Runs a command on a node and returns its exit status, or 255 if the node does not answer."""
    request = {"words": words, "folder": folder, "environment": environment or {}, "kill": kill}
    data = json.dumps(request).encode() + b"\0"
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(f"{state}/{node}/socket")
        sent = socket.send_fds(connection, [data[: 1 << 15]], [0, 1, 2])
        if sent < len(data):
            connection.sendall(data[sent:])
        status = connection.recv(1)
    except OSError as error:
        print(f"{node} does not answer: {error}", file=sys.stderr)
        return 255
    return status[0] if status else 255


# ---- A set of nodes -------------------------------------------------------------------------------------


def hold(count, delay_us):
    """Checks the machine, then becomes the parent of `keep` in new namespaces."""
    missing = [tool for tool in ["ip", "unshare", "mount", "gcc"] if not shutil.which(tool)]
    if delay_us and not os.path.exists("/dev/net/tun"):
        missing.append("/dev/net/tun")
    reason = f"no {' and no '.join(missing)}" if missing else None
    if not reason:
        bridge = ["ip", "link", "add", "bridge", "type", "bridge"]
        probe = ["unshare", *NAMESPACES, "--uts", "--ipc"] + (["true"] if delay_us else bridge)
        done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        reason = done.stderr.strip() if done.returncode else None
    if reason:
        print(reason, file=sys.stderr)
        sys.exit(IMPOSSIBLE)
    remove_folders_of_killed_sets()
    folder = tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-")
    keeper = [PYTHON, THIS, "keep", folder, str(count), str(delay_us)]
    os.execvp("unshare", ["unshare", *NAMESPACES, *keeper])


def remove_folders_of_killed_sets():
    """A killed holder leaves an empty folder: the content was on a mount in its namespace."""
    for folder in glob.glob(os.path.join(tempfile.gettempdir(), f"{FOLDER}*-*")):
        holder = os.path.basename(folder)[len(FOLDER):].split("-")[0]
        if not os.path.exists(f"/proc/{holder}"):
            try:
                os.rmdir(folder)
            except OSError:
                pass  # Another set has removed the folder, or the folder belongs to another program.


def keep(state, count, delay_us):
    """Makes the nodes, says so, and keeps them until the standard input ends."""
    # Process 1 of this namespace: its end ends all others.
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", state)
    try:
        build(state, count, delay_us)
        print(f"ready {state}", flush=True)
        while os.read(0, 1 << 10):
            pass
    except KeyboardInterrupt:
        pass
    finally:
        # The folder of the machine under the mount.
        subprocess.run(["umount", "--lazy", state], check=False)
        os.rmdir(state)


def build(state, count, delay_us):
    names = [f"n{number}" for number in range(1, count + 1)]
    with open(f"{state}/hosts", "w") as hosts:
        hosts.write("127.0.0.1 localhost\n")
        hosts.writelines(f"{address(number)} n{number}\n" for number in range(1, count + 1))
    # The remote shell of the launchers: options, a node, words for a shell, as in ssh.
    with open(f"{state}/shell", "w") as shell:
        shell.write(f'#!/bin/sh\nexec {PYTHON} {shlex.quote(THIS)} shell {state} "$@"\n')
    os.chmod(f"{state}/shell", 0o755)
    os.mkdir(f"{state}/bin")
    for name in LAUNCHERS:
        with open(f"{state}/bin/{name}", "w") as launcher:
            launcher.write(f'#!/bin/sh\nexec {PYTHON} {shlex.quote(THIS)} launch {state} {name} "$@"\n')
        os.chmod(launcher.name, 0o755)
    run("gcc", "-O2", "-shared", "-fPIC", "-o", f"{state}/finalize.so", f"{HERE}/finalize.c", "-ldl")
    processes = []
    for number, name in enumerate(names, 1):
        os.makedirs(f"{state}/{name}/tmp")
        # As after a login by ssh: a node does not get the environment of the machine.
        kept = {key: os.environ[key] for key in ["PATH", "HOME", "LANG"] if key in os.environ}
        words = ["unshare", *NAMESPACES, "--uts", "--ipc", PYTHON, THIS, "serve", state, str(number)]
        environment = {**kept, "TMPDIR": f"{state}/{name}/tmp"}
        # The child ends with its node only, so that a Ctrl-C does not reach it.
        processes.append(
            subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
        )
    for name, process in zip(names, processes):
        wait_until(lambda: os.path.exists(f"{state}/{name}/socket"), process, name)
    if delay_us:
        join_by_program(state, processes, delay_us)
    else:
        join_by_bridge(names, processes)
    for number, name in enumerate(names, 1):
        configure = f"ip addr add {address(number)}/24 dev eth0 && ip link set eth0 up && ip link set lo up"
        if call(state, name, ["sh", "-c", configure]):
            raise SystemExit(f"{name} has no network")


def wait_until(holds, process, what):
    limit = time.monotonic() + START_LIMIT
    while not holds():
        if process.poll() is not None or time.monotonic() > limit:
            raise SystemExit(f"{what} does not start")
        time.sleep(0.005)


def join_by_bridge(names, processes):
    run("ip", "link", "add", "bridge", "type", "bridge")
    run("ip", "link", "set", "bridge", "up")
    for name, process in zip(names, processes):
        run(*f"ip link add {name} type veth peer name eth0 netns {process.pid}".split())
        run(*f"ip link set {name} master bridge up".split())


def join_by_program(state, processes, delay_us):
    """Joins the nodes by TAP devices and `delay.c`, because many kernels lack netem."""
    program = f"{state}/delay"
    run("gcc", "-O2", "-o", program, f"{HERE}/delay.c")
    namespaces = [f"/proc/{process.pid}/ns/net" for process in processes]
    switch = subprocess.Popen(
        [program, str(delay_us), *namespaces], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    if switch.stdout.readline() != b"ready\n":
        raise SystemExit("the switch with a delay does not start")


# ---- Commands for a set of nodes ------------------------------------------------------------------------


def state_of(holder):
    """The folder of a set as its namespace sees it, and as this process reaches it."""
    with open(f"/proc/{holder}/mountinfo") as mounts:
        points = [line.split()[4] for line in mounts]
    inner = next(point for point in points if f"/{FOLDER}{holder}-" in point)
    return inner, f"/proc/{holder}/root{inner}"


def on(holder, node, words):
    inner, state = state_of(holder)
    environment = {**os.environ, "TMPDIR": f"{inner}/{node}/tmp"}
    return call(state, node, words, os.getcwd(), environment)


def mpi(holder, ranks, words):
    """Runs a command on n1. Its launchers start ranks on all nodes."""
    inner, state = state_of(holder)
    with open(f"{state}/hydra.{os.getpid()}", "w") as hosts:
        hosts.writelines(f"n{node}:{count}\n" for node, count in enumerate(ranks.split(","), 1))
    # A launcher of another command may read a file of the same content now.
    os.rename(hosts.name, f"{state}/hydra.{ranks}")
    # Open MPI gets options from `launch` instead: Capulet's commands remove its variables.
    os.environ.update({
        "PATH": f"{inner}/bin:{os.environ['PATH']}",
        RANKS_VARIABLE: ranks,
        "HYDRA_HOST_FILE": f"{inner}/hydra.{ranks}",
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": f"{inner}/shell",
        "HYDRA_IFACE": "eth0",
    })
    return on(holder, "n1", words)


def launch(state, name, words):
    """Becomes the launcher `name` of the machine, with options that `mpi` cannot give by variables."""
    path = [folder for folder in os.environ["PATH"].split(":") if folder != f"{state}/bin"]
    if name == "mpiexec.openmpi":
        counts = enumerate(os.environ[RANKS_VARIABLE].split(","), 1)
        options = ["--allow-run-as-root", "--oversubscribe", "--map-by", "slot", "--host"]
        options.append(",".join(f"n{node}:{count}" for node, count in counts))
        for key, value in OPEN_MPI_SETTINGS.items():
            options += ["--mca", key, value]
        options += ["--mca", "plm_rsh_agent", f"{state}/shell"]
        # Open MPI gives ranks of other nodes only the variables that it is told. MPICH gives all.
        for key in sorted(os.environ):
            options += [] if key.startswith(OWN_VARIABLES) else ["-x", key]
    else:
        preload = ":".join([f"{state}/finalize.so", *os.environ.get("LD_PRELOAD", "").split()])
        options = ["-genv", "LD_PRELOAD", preload]
    # Hydra finds its other programs beside its first argument.
    launcher = shutil.which(name, path=":".join(path))
    os.execv(launcher, [launcher, *options, *words])


def end(holder, nodes):
    _, state = state_of(holder)
    nodes = nodes or sorted(name for name in os.listdir(state) if os.path.exists(f"{state}/{name}/socket"))
    return max(call(state, node, [], kill=True) for node in nodes)


def shell(state, words):
    """`shell STATE [OPTION...] NODE WORD...`, as a launcher calls its remote shell."""
    while words and words[0].startswith("-"):
        words = words[1:]
    return call(state, words[0], ["/bin/bash", "-c", " ".join(words[1:])])


def main():
    # Internal commands. The words of launchers may begin with a dash.
    inside = {
        "keep": lambda state, count, delay_us: keep(state, int(count), int(delay_us)),
        "serve": lambda state, number: serve(state, int(number)),
        "shell": lambda state, *words: sys.exit(shell(state, words)),
        "launch": lambda state, name, *words: launch(state, name, words),
    }
    if sys.argv[1:] and sys.argv[1] in inside:
        inside[sys.argv[1]](*sys.argv[2:])
        return
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("hold")
    command.add_argument("count", type=int)
    command.add_argument("--delay", type=int, default=0, metavar="MICROSECONDS")
    for name, places in {"on": ["node"], "mpi": ["ranks"], "end": []}.items():
        command = commands.add_parser(name)
        command.add_argument("holder", type=int)
        for place in places:
            command.add_argument(place)
        command.add_argument("words", nargs=argparse.REMAINDER if places else "*")
    given = parser.parse_args()
    if given.command == "hold":
        hold(given.count, given.delay)
    if given.command == "on":
        sys.exit(on(given.holder, given.node, given.words))
    if given.command == "mpi":
        sys.exit(mpi(given.holder, given.ranks, given.words))
    sys.exit(end(given.holder, given.words))


if __name__ == "__main__":
    main()
