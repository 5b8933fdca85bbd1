"""papers.py catches what it is for.

    python3 papers_test.py SOURCE_FOLDER
"""

import contextlib
import gzip
import io
import json
import pathlib
import sys
import tempfile
import tomllib
import unittest

import papers

ROOT = pathlib.Path(sys.argv.pop()).resolve()
TABLE = """title = "Claims"
about = "About."
equations = "See `{path}` | `{test}`"
solved = "solved-2026-01-02/all.csv"

[commands]
"solved-2026-01-02" = "solve"
"gpu-2026-01-03" = "measure"

[[paper]]
name = "P"
about = "A paper."
lists = "figures 1 to 2; table I"

[[paper.row]]
in = "figure 1"
claim = "2 times"
ours = "{ours}"
on = "a GPU"
from = {{ {picks} }}

[[paper.row]]
in = "{second}"
claim = "a drawing"
why = "{why}"
"""
GOOD = {"path": "tests/x/some_test.cc", "test": "SomeTest", "ours": "{a/b:.2f} times",
        "picks": 'a = "slow ms", b = "fast ms"', "second": "figure 2; table I",
        "why": "nothing to measure"}
PAGE = """| network | ms | GiB |
|---|---|---|
| VGG-16, 64 | 214.56 (+1.2 %) | 1,024 |
| VGG-16, 128 | 400.0 | 2 |

It took 7.5 s, then 8.5 s.
"""


class PapersTest(unittest.TestCase):
    def setUp(self):
        papers.ROWS = 1
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        results = self.root / "docs/results"
        (results / "solved-2026-01-02").mkdir(parents=True)
        (results / "solved-2026-01-02/all.csv").write_text(
            "name,value\nslow ms,6\nfast ms,4\ntwice,1\ntwice,2\n")
        (results / "gpu-2026-01-03.md").write_text(PAGE)
        (results / "gpu-2026-01-03").mkdir()
        (results / "gpu-2026-01-03/rows.json.gz").write_bytes(gzip.compress(json.dumps(
            [{"net": "a", "limits": [{"mib": 8, "us": 4000}, {"mib": 64, "us": 2000}]},
             {"net": "b", "limits": [{"mib": 8, "us": 1000}]}]).encode()))
        (results / "gpu-2026-01-03/log.txt").write_text("took 3 ms\ntook 5 ms\n")
        (results / "gpu-2026-01-03/ways.json").write_text(json.dumps(
            {"net a": {"no limit": {"ms": [3, 9, 4]}}, "net b": {}}))
        (self.root / "tests/x").mkdir(parents=True)
        (self.root / "tests/x/some_test.cc").write_text("TEST(SomeTest, Works)")
        papers.text_of.cache_clear()

    def made(self, *arguments, **changed):
        """What the program says, and the page that it has made."""
        (self.root / "docs/papers.toml").write_text(TABLE.format(**{**GOOD, **changed}))
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = papers.main([str(self.root), *arguments])
        page = self.root / "docs/papers.md"
        return status, said.getvalue(), page.read_text() if page.exists() else ""

    def ours(self, pick, ours="{a:g}"):
        status, said, page = self.made(picks=f"a = {pick}", ours=ours)
        self.assertEqual(status, 0, said)
        return page.split("| 2 times | ")[1].partition(" |")[0]

    def refuses(self, words, **changed):
        status, said, _ = self.made(**changed)
        self.assertEqual(status, 1, said)
        self.assertIn(words, said)

    def test_writes_a_page_that_its_check_accepts(self):
        status, said, page = self.made()
        self.assertEqual(
            (status, said), (0, "2 rows: 1 with numbers of ours, 1 with a reason\n"))
        self.assertIn("| figure 1 | 2 times | 1.50 times | a GPU "
                      "| [Jan 2](results/solved-2026-01-02.md) | `solve` |", page)
        self.assertEqual(self.made("--check")[0], 0)

    def test_check_refuses_a_page_that_is_changed_or_missing(self):
        words = "docs/papers.md is not what"
        self.assertIn(words, self.made("--check")[1])
        _, _, page = self.made()
        (self.root / "docs/papers.md").write_text(page.replace("1.50", "1.60"))
        status, said, _ = self.made("--check")
        self.assertEqual(status, 1)
        self.assertIn(words, said)

    def test_check_refuses_a_result_that_has_changed(self):
        self.made()
        solved = self.root / "docs/results/solved-2026-01-02/all.csv"
        solved.write_text(solved.read_text().replace("slow ms,6", "slow ms,7"))
        papers.text_of.cache_clear()
        self.assertIn("is not what", self.made("--check")[1])

    def test_reads_tables_texts_and_records(self):
        page, rows = "gpu-2026-01-03.md", "gpu-2026-01-03/rows.json.gz"
        self.assertEqual(self.ours(f'["{page}", "| VGG-16, 64 |", "ms"]'), "214.56")
        self.assertEqual(self.ours(f'["{page}", "| VGG-16, 64 |", "GiB"]'), "1024")
        self.assertEqual(self.ours(f"['{page}', 'then (\\S+) s']"), "8.5")
        for where, formula, value in (
            ('"net=a limits.mib=64", "limits.us/1000"', "", "2"),
            ('"limits.mib=8", "limits.us"', ', "mean"', "2500"),
            ('"limits.mib=8", "limits.us"', ', "max"', "4000"),
            ('"net=a", "limits.us"', ', "count"', "2"),
        ):
            self.assertEqual(self.ours(f'["{rows}", {where}{formula}]'), value)
        self.assertEqual(
            self.ours("""["gpu-2026-01-03/ways.json", "key='net a'", "no_limit.ms"]"""),
            "4")
        self.assertEqual(
            self.ours("""['gpu-2026-01-03/log.txt', 'took (\\d+) ms', 'mean']"""), "4")

    def test_refuses_what_matches_nothing_or_more_than_once(self):
        page, rows = "gpu-2026-01-03.md", "gpu-2026-01-03/rows.json.gz"
        for pick, times in (
            ('"nobody"', 0), ('"twice"', 2),
            (f'["{page}", "ResNet", "ms"]', 0), (f'["{page}", "VGG-16", "ms"]', 2),
            (f'["{page}", "VGG-16, 64", "us"]', 0),
            (f"['{page}', 'after (\\S+) s']", 0), (f"['{page}', '(\\S+) s']", 2),
            (f'["{rows}", "net=c", "us"]', 0),
            (f'["{rows}", "limits.mib=8", "limits.us"]', 2),
            (f'["{rows}", "net=c", "us", "mean"]', 0),
        ):
            with self.subTest(pick=pick):
                self.refuses(f"matches {times} times", picks=f"a = {pick}", ours="{a}")

    def test_refuses_files_that_are_missing(self):
        self.refuses("there is no docs/results/gpu-2026-01-03/none.csv",
                     picks='a = ["gpu-2026-01-03/none.csv", "VGG", "ms"]', ours="{a}")

    def test_refuses_a_listed_claim_without_a_row_and_a_row_that_is_not_listed(self):
        self.refuses("P: table I has no row", second="figure 2")
        self.refuses("P: figure 2 has no row", second="table I")
        self.refuses("P: figure 3 is not listed", second="figure 2, 3; table I")

    def test_refuses_numbers_typed_by_hand(self):
        self.refuses("'1.50' is typed by hand", ours="1.50 times")
        self.refuses("'3' is typed by hand", ours="{a/b:.1f} of 3")
        self.refuses("is not arithmetic", ours="{1.5*a/b:.1f}")
        self.refuses("'1.5' is typed by hand in `why`", why="it took 1.5 ms")

    def test_refuses_numbers_that_are_not_shown_and_commands_that_are_not_known(self):
        self.refuses("b is not used", ours="{a:g}")
        self.refuses("no command makes other-2026-01-02",
                     picks='a = ["other-2026-01-02.md", "x", "ms"]', ours="{a}")

    def test_refuses_cells_that_nobody_reads_and_pages_with_few_rows(self):
        self.refuses("151 characters in a cell", why="x" * 151)
        papers.ROWS = 3
        self.refuses("2 rows, not at least 3")

    def test_refuses_equations_whose_file_or_test_is_gone(self):
        self.refuses("there is no tests/x/other_test.cc", path="tests/x/other_test.cc")
        self.refuses("no test has OtherTest", test="OtherTest")

    def test_lists_every_figure_and_table_of_the_papers(self):
        listed = {paper["name"]: papers.places_of(paper["lists"]) for paper in
                  tomllib.loads((ROOT / "docs/papers.toml").read_text())["paper"]}
        for name, figures in (("CLUSTER 2018", 13), ("IPSJ 2017", 13),
                              ("vDNN and vDNNExt", 10), ("moDNN", 19)):
            self.assertLessEqual(
                {f"figure {n}" for n in range(1, figures + 1)}, listed[name])
        self.assertEqual(len(listed), 5)


if __name__ == "__main__":
    unittest.main()
