"""Runs modules of mpi4py's own test suite on this rank and writes the outcome of each test.

usage: mpiexec -n N [capulet run] python3 run_modules.py TEST_FOLDER RESULT_FOLDER MODULE...

Each rank writes RESULT_FOLDER/rank-R.json: {test id: [outcome, detail]}. An outcome is ok, fail, error or
skip. A test with sub-tests is ok if all of them are. Test ids have no part that differs between runs.
"""

import json
import os
import sys
import unittest

ORDER = ("ok", "skip", "fail", "error")


class Collector(unittest.TestResult):
    """Keeps the worst outcome of each test."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def note(self, test, outcome, detail=""):
        test_id = test.id()
        known = self.outcomes.get(test_id)
        if known is None or ORDER.index(outcome) > ORDER.index(known[0]):
            self.outcomes[test_id] = [outcome, detail]

    def startTest(self, test):
        super().startTest(test)
        if os.environ.get("CHECK_TRACE"):
            print("start", test.id(), file=sys.stderr, flush=True)

    def addSuccess(self, test):
        self.note(test, "ok")

    def addSkip(self, test, reason):
        # A skipped class reports each of its tests. A skipped set-up of a module reports itself.
        self.note(test, "skip", reason)

    def addFailure(self, test, error):
        self.note(test, "fail", self._exc_info_to_string(error, test))

    def addError(self, test, error):
        self.note(test, "error", self._exc_info_to_string(error, test))

    def addExpectedFailure(self, test, error):
        self.note(test, "ok")

    def addUnexpectedSuccess(self, test):
        self.note(test, "fail", "passed, though the suite expects it to fail")

    def addSubTest(self, test, subtest, error):
        if error is not None:
            outcome = "fail" if issubclass(error[0], test.failureException) else "error"
            self.note(test, outcome, f"{subtest}: " + self._exc_info_to_string(error, test))


def main():
    folder, results, modules = sys.argv[1], sys.argv[2], sys.argv[3:]
    sys.path.insert(0, folder)
    os.chdir(results)
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.Get_rank()
    suite = unittest.TestLoader().loadTestsFromNames(modules)
    count = suite.countTestCases()
    collector = Collector()
    suite.run(collector)
    if collector.testsRun == 0 or not collector.outcomes:
        raise SystemExit(f"no test was run of {count}")
    with open(f"rank-{rank}.json", "w", encoding="ascii") as out:
        json.dump(collector.outcomes, out, indent=0, sort_keys=True)


if __name__ == "__main__":
    main()
