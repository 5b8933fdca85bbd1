"""Checks that every measured number in README, the guides and the list of results
stands in a result.

    python3 check_numbers.py SOURCE_FOLDER

A number counts as measured if it has a unit (ms, %, GiB, times, ...) or a decimal
point; versions, code and links do not count. The paragraph, list or table that
has it, or the paragraph just above a table, names where it comes from:

    <!-- from h200-figures-2026-11-22: vgg16, 64 | PSEUDO_HALF; 214.56/19.19 -->

That is docs/results/h200-figures-2026-11-22.md, which has to be linked there or
further up under the same heading: its name tells the machine and the date. Each
number has to stand, rounded as the reader sees it, in a table row, paragraph or
list item of that page that has one of the given words, or be one of the given
differences, quotients or products of numbers in these. Limits and defaults, which
nobody measured, are listed below.
"""

import pathlib
import re
import sys

PAGES = ["README.md", "docs/memory.md", "docs/guide/*.md", "docs/results/index.md"]

# By page: what is set, not measured.
SETTINGS = {
    "README.md": {"64 MiB", "120 MiB"},
    "docs/guide/drop-in.md": {"30 s", "64 MiB"},
    "docs/guide/jobs.md": {"2.14"},
    "docs/guide/operations.md": {
        *("16 MiB", "128 MiB", "80 GB", "8 s", "5 s", "10 s", "2 s", "60 s"),
        *("1.20", "1.32", "2.13", "2.14", "3.1", "9.19"),  # versions
    },
    "docs/guide/page.md": {"3 %"},
    "docs/guide/pytorch.md": {"1 %", "10 %", "64 MiB", "256 MiB", "2 %", "0.5 %"},
    "docs/guide/pytorch-losses.md": {"59 %"},  # what its tests assert
    "docs/memory.md": {"50 %", "25 %", "15 %", "4 GB", "2 GB", "8 GiB", "30 s"},
}

DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w]|\.\d)")
UNIT = r"\s?(?:ms|us|s|%|[KMG]i?B|kB|times|TB/s|GB/s)(?!\w)"
QUANTITY = re.compile(
    rf"(?<![\w.])(?:\d[\d,]*(?:\.\d+)?{UNIT}|\d[\d,]*\.\d+(?![\w.]))"
)
SOURCE = re.compile(r"<!--\s*from\s+([\w-]+):(.*?)-->", re.DOTALL)
FORMULA = re.compile(r"([\d.]+)\s*([-/*])\s*([\d.]+)$")
BLOCKS_OF_CODE = r"^```.*?^```"
NO_CLAIM = [
    BLOCKS_OF_CODE,
    r"<!--.*?-->",
    r"`(?:[^`\n]|\n(?!\n))*`",
    r"(?<=\])\([^)]*\)",
    r"\b(?:cuDNN|CUDA|PyTorch|Python|Linux|driver|capability)"
    rf" \d+(?:\.\d+)*(?:(?:,| and| or| to) \d+\.\d+)*(?![\d.]|{UNIT})",
]


def check(root: pathlib.Path, name: str, text: str) -> list[str]:
    """What is wrong with the numbers of a page, a line each."""
    found = []
    linked, above = "", ""
    numbers = measured(name, text)
    for start, block in blocks(without([BLOCKS_OF_CODE], text)):
        if block.startswith("#"):
            linked = ""
        linked += block
        sources = SOURCE.findall(block)
        if block.startswith("|"):
            sources += SOURCE.findall(above)
        above = block
        if not without([r"<!--.*?-->"], block).strip():
            continue  # the table below has the numbers and the links
        known: list[str] = []
        place = f"{name}:{text.count(chr(10), 0, start) + 1}"
        for page, words in sources:
            if f"{page}.md" not in linked:
                found.append(f"{place}: no link to {page}, where numbers are from")
            known += evidence(root / f"docs/results/{page}.md", words, place, found)
        for first, last in numbers:
            if not start <= first < start + len(block):
                continue
            if not any(rounds_to(value, text[first:last]) for value in known):
                line = text.count("\n", 0, first) + 1
                whence = " or ".join(page for page, _ in sources) or "a named result"
                found.append(f"{name}:{line}: {text[first:last]} is not in {whence}")
    return found


def measured(name: str, text: str) -> list[tuple[int, int]]:
    """Where the digits of a page's measured numbers begin and end."""
    return [
        (quantity.start(), DIGITS.match(text, quantity.start()).end())
        for quantity in QUANTITY.finditer(without(NO_CLAIM, text))
        if one_line(quantity.group()) not in SETTINGS.get(name, ())
    ]


def evidence(
    page: pathlib.Path, words: str, place: str, found: list[str]
) -> list[str]:
    """The numbers of the parts of a result that `words` pick."""
    if not page.exists():
        found.append(f"{place}: there is no {page.name}")
        return []
    parts = [one_line(part) for part in parts_of(page.read_text())]
    terms = [one_line(term) for term in words.split(";")]
    known: list[str] = []
    for term in sorted(terms, key=lambda term: bool(FORMULA.match(term))):
        if formula := FORMULA.match(term):
            left, operation, right = formula.groups()
            if left not in known or right not in known:
                found.append(f"{place}: {page.name} lacks a number of '{term}' there")
            a, b = float(left), float(right)
            result = {"-": a - b, "/": a / b, "*": a * b}[operation]
            known.append(f"{result:.9f}")
            continue
        having = [part for part in parts if term and term in part]
        if not having:
            found.append(f"{place}: {page.name} does not have '{term}'")
        known += [n for part in having for n in NUMBER.findall(part)]
    return known


def rounds_to(value: str, digits: str) -> bool:
    """Whether a reader may see `value` as `digits`."""
    value, digits = value.replace(",", ""), digits.replace(",", "")
    decimals = [len((n + ".").split(".")[1]) for n in (value, digits)]
    off = abs(float(value) - float(digits))
    return decimals[0] >= decimals[1] and off <= 0.5 * 10.0 ** -decimals[1] + 1e-9


def blocks(text: str) -> list[tuple[int, str]]:
    """What blank lines separate, and where it begins."""
    return [
        (block.start(), block.group())
        for block in re.finditer(r"^.*\S.*(?:\n.*\S.*)*", text, re.MULTILINE)
    ]


def parts_of(text: str) -> list[str]:
    """The table rows, list items and paragraphs of a result."""
    return re.split(r"\n\s*\n|\n(?=\||- )", text)


def without(patterns: list[str], text: str) -> str:
    """`text` with blanks for what the patterns match."""
    for pattern in patterns:
        text = re.sub(
            pattern,
            lambda match: re.sub(r"[^\n]", " ", match.group()),
            text,
            flags=re.MULTILINE | re.DOTALL,
        )
    return text


def one_line(text: str) -> str:
    return " ".join(text.split())


def pages_of(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted(page for pattern in PAGES for page in root.glob(pattern))


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = pages_of(root)
    found = [
        problem
        for page in pages
        for problem in check(root, str(page.relative_to(root)), page.read_text())
    ]
    print("\n".join(found) or f"{len(pages)} pages, no number without its result")
    return 1 if found or len(pages) < 3 else 0


if __name__ == "__main__":
    sys.exit(main())
