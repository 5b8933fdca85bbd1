"""Compares the tests that skipped themselves with those that tests/skips.txt lists.

    python3 tests/skips.py PRESET=JUNIT_FILE ...

Each file is what `ctest --output-junit` wrote for a preset, with all output. Prints
how many tests passed and failed. Exit status 1 if another number skipped itself
than listed: a test that no longer runs looks like one that passes.
"""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

LISTED = Path(__file__).with_name("skips.txt")
# What GoogleTest, pytest and Node.js say of tests within one of ctest's.
SKIPPED = re.compile(
    r"^\[  SKIPPED \] (\d+) tests?\.$|^\d.*\b(\d+) skipped\b.* in |^# skipped (\d+)$",
    re.MULTILINE,
)
RAN = re.compile(r"^\[==========\] (\d+) tests? from .* ran\.", re.MULTILINE)


def listed(text):
    """{(preset, entry): number or "all"} of skips.txt's text."""
    numbers = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            preset, entry, number, _reason = line.split(maxsplit=3)
            numbers[preset, entry] = number if number == "all" else int(number)
    return numbers


def skipped(case):
    """How many tests of one of ctest's skipped themselves; "all" if no other ran."""
    if outcome(case) == "skipped":
        return "all"
    output = case.findtext("system-out") or ""
    number = sum(int(n) for groups in SKIPPED.findall(output) for n in groups if n)
    ran = RAN.search(output)
    return "all" if ran and number and number == int(ran[1]) else number


def differences(files, expected):
    """Lines that say what differs in {preset: JUnit file}."""
    found = {
        (preset, case.get("name")): skipped(case)
        for preset, file in files.items()
        for case in ElementTree.parse(file).iter("testcase")
    }
    return [
        f"{preset} {entry}: {found.get((preset, entry), 'absent')} skipped, not "
        f"{expected.get((preset, entry), 0)}"
        for preset, entry in sorted({*found, *expected})
        if preset in files
        and found.get((preset, entry)) != expected.get((preset, entry), 0)
    ]


def outcome(case):
    """ "passed", "failed" or "skipped"; a test that cannot be started has failed."""
    if case.get("status") == "run":
        return "passed"
    skipped = case.find("skipped")
    own = skipped is not None and skipped.get("message", "").startswith("SKIP_")
    return "skipped" if own else "failed"


def main():
    files = dict(argument.split("=", 1) for argument in sys.argv[1:])
    outcomes = [
        outcome(case)
        for file in files.values()
        for case in ElementTree.parse(file).iter("testcase")
    ]
    wrong = differences(files, listed(LISTED.read_text()))
    for line in wrong:
        print(line)
    if wrong:
        print(f"Make these tests run again, or say in {LISTED} why they do not.")
    passed, failed = outcomes.count("passed"), outcomes.count("failed")
    print(f"{passed} passed, {failed} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
