"""Compares the results of run_modules.py with the committed lists. The exit code is 0 if they agree.

usage: judge.py RESULT_FOLDER RANKS VERSION [--native]

expected.txt lists tests that must fail, because a function is not built yet. skipped.txt lists tests that
skip on the MPI's own I/O too. Each of these is an error: a failure, error or skip that is not listed, a
listed test that passes, and a listed name that no rank has run.
--native: the tests ran on the MPI's own I/O, so expected.txt does not apply.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def read_list(name, version):
    """Returns the test ids of `version` in a list. Its lines are `VERSION TEST_ID REASON...`."""
    listed = set()
    for line in (HERE / name).read_text(encoding="ascii").splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) < 3:
            raise SystemExit(f"{name}: no reason in: {line}")
        if words[0] == version:
            listed.add(words[1])
    return listed


def verdict(outcome, test_id, failing, skipping):
    """Returns None if `outcome` is right, else a description of the fault."""
    if test_id in failing:
        return None if outcome in ("fail", "error") else f"is expected to fail, but: {outcome}"
    if test_id in skipping:
        return None if outcome == "skip" else f"is expected to skip, but: {outcome}"
    return None if outcome == "ok" else outcome


def main():
    folder, ranks, version = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    failing = set() if "--native" in sys.argv else read_list("expected.txt", version)
    skipping = read_list("skipped.txt", version)
    passed, wrong, seen = 0, [], set()
    for rank in range(ranks):
        path = folder / f"rank-{rank}.json"
        if not path.exists():
            wrong.append((f"rank {rank}", "left no results", ""))
            continue
        for test_id, (outcome, detail) in sorted(json.loads(path.read_text(encoding="ascii")).items()):
            seen.add(test_id)
            trouble = verdict(outcome, test_id, failing, skipping)
            if trouble is None:
                passed += 1
            else:
                wrong.append((f"rank {rank} {test_id}", trouble, detail))
    wrong += [(test_id, "is listed, but was not run", "") for test_id in sorted((failing | skipping) - seen)]
    for name, trouble, detail in wrong:
        print(f"{name}: {trouble}\n    " + "\n    ".join(detail.strip().splitlines()[-4:]))
    print(f"mpi4py {version} on {ranks} ranks: as expected to fail {len(failing & seen)}, to skip {len(skipping & seen)}")
    print(f"{passed} passed, {len(wrong)} failed")
    return 1 if wrong or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
