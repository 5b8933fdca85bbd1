"""tests/skips.py on what ctest writes."""

import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parents[1]))
import skips

RESULTS = """<testsuite>
<testcase name="whole" status="run"><system-out>[==========] 9 tests from 2 test
[==========] 9 tests from 2 test suites ran. (4 ms total)
[  PASSED  ] 0 tests.
[  SKIPPED ] 9 tests.
</system-out></testcase>
<testcase name="some" status="run"><system-out>
[==========] 9 tests from 2 test suites ran. (4 ms total)
[  PASSED  ] 8 tests.
[  SKIPPED ] 1 test.
</system-out></testcase>
<testcase name="pytest" status="run"><system-out>
1 failed, 4 passed, 3 skipped, 1 warning in 2.53s
</system-out></testcase>
<testcase name="node" status="run"><system-out># skipped 2
</system-out></testcase>
<testcase name="script" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
<testcase name="missing" status="notrun"><skipped message="Unable to find executable"/></testcase>
<testcase name="bad" status="fail"><failure message=""/></testcase>
<testcase name="good" status="run"><system-out>none skipped</system-out></testcase>
</testsuite>"""

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "tests.xml"
    file.write_text(RESULTS)

    def differences(text):
        return skips.differences({"ci": file}, skips.listed(text))

    right = """# Comment

ci whole all no GPU
ci some 1 no GPU
ci pytest 3 no GPU
ci node 2 no GPU
ci script all no right to mount
asan other 5 of a preset that did not run
"""
    assert differences(right) == [], differences(right)
    assert differences(right.replace("whole all", "whole 9")) == [
        "ci whole: all skipped, not 9"
    ]
    assert differences(right.replace("some 1", "some 2")) == [
        "ci some: 1 skipped, not 2"
    ]
    assert differences(right + "ci gone 1 removed") == ["ci gone: absent skipped, not 1"]
    assert len(differences("")) == 5
    outcomes = {
        case.get("name"): skips.outcome(case)
        for case in skips.ElementTree.parse(file).iter("testcase")
    }
    assert outcomes["missing"] == outcomes["bad"] == "failed", outcomes
    assert outcomes["script"] == "skipped", outcomes
    assert outcomes["good"] == "passed", outcomes
print("ok")
