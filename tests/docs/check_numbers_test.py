"""check_numbers.py catches what it is for.

    python3 check_numbers_test.py SOURCE_FOLDER
"""

import pathlib
import sys
import tempfile
import unittest

import check_numbers

ROOT = pathlib.Path(sys.argv.pop()).resolve()
RESULT = """| network | ms |
|---|---|
| VGG-16 | 214.56 / 19.19 |
| AlexNet | 8.07 |
"""
PAGE = "On a [GPU](docs/results/gpu.md) 19.2 ms, 11.2 times. <!-- from gpu: {} -->\n"


class CheckNumbersTest(unittest.TestCase):
    def check(self, page: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "docs/results"
            results.mkdir(parents=True)
            (results / "gpu.md").write_text(RESULT)
            return check_numbers.check(pathlib.Path(folder), "page.md", page)

    def test_takes_numbers_and_quotients_of_the_rows_that_are_named(self):
        self.assertEqual(self.check(PAGE.format("VGG-16; 214.56/19.19")), [])

    def test_refuses_numbers_of_other_rows(self):
        found = self.check(PAGE.format("AlexNet"))
        self.assertEqual(len(found), 2)
        self.assertIn("page.md:1: 19.2 is not in gpu", found)

    def test_refuses_a_quotient_that_is_not_of_the_result(self):
        self.assertTrue(self.check(PAGE.format("VGG-16; 214.96/19.19")))

    def test_refuses_numbers_without_a_source(self):
        self.assertTrue(self.check("It takes 19.2 ms.\n"))
        self.assertTrue(self.check("In PyTorch 49.2 ms.\n"))
        self.assertTrue(self.check("It takes 19GiB.\n"))

    def test_refuses_a_source_without_a_link(self):
        unlinked = PAGE.replace("docs/results/gpu.md", "x")
        found = self.check(unlinked.format("VGG-16; 214.56/19.19"))
        self.assertEqual(len(found), 1)

    def test_refuses_words_and_results_that_are_not_there(self):
        self.assertTrue(self.check(PAGE.format("VGG-16; LeNet; 214.56/19.19")))
        self.assertTrue(self.check(PAGE.replace("gpu:", "cpu:").format("VGG-16")))

    def test_takes_versions_and_code_for_no_claim(self):
        self.assertEqual(self.check("cuDNN 9.19 and 9.20, `--limit 64 MiB`\n"), [])

    def test_catches_digits_that_are_changed_in_the_documents(self):
        # Some numbers stand in the same row of a result as the next one.
        changed, missed = 0, []
        for page in check_numbers.pages_of(ROOT):
            name, text = str(page.relative_to(ROOT)), page.read_text()
            for start, end in check_numbers.measured(name, text):
                digits = text[start:end]
                last = str((int(digits[-1]) + 1) % 10)
                other = text[: end - 1] + last + text[end:]
                changed += 1
                if not check_numbers.check(ROOT, name, other):
                    line = text.count("\n", 0, start) + 1
                    missed.append(f"{name}:{line}: {digits}")
        self.assertEqual([m for m in missed if m.startswith("README")], [])
        self.assertGreater(changed, 50)
        self.assertLess(len(missed), changed / 7, missed)


if __name__ == "__main__":
    unittest.main()
