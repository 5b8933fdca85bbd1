"""Checks that decisions are short, numbered without holes, and named rightly.

    python3 check_adrs.py SOURCE_FOLDER

A file docs/adr/NNNN-title.md begins with "# N. Title" and has a status, context,
decision and consequences in at most 250 words. Every "ADR N" and "docs/adr/NNNN"
in the sources and documents is the number of one.
"""

import pathlib
import re
import sys

WORDS = 250
# What is longer until it is decided anew; this list only becomes shorter.
LONGER = {2, 15, 23, 33, 34, 49}

PARTS = ["\nStatus: ", "\n## Context\n", "\n## Decision\n", "\n## Consequences\n"]
FOLDERS = ("base solver device proto agent coordinator client deploy docs "
           "tests cmake").split()
SUFFIXES = set(".cc .h .hpp .cu .in .md .proto .py .sh .sql .toml .ts .txt".split())
NAMED = re.compile(r"\bADRs? (\d+)\b|\badr/(\d{4})\b")


def problems(root: pathlib.Path) -> list[str]:
    found = []
    files = sorted((root / "docs/adr").glob("*.md"))
    numbers = [int(file.name[:4]) for file in files]
    for number in range(1, max(numbers) + 1):
        if numbers.count(number) != 1:
            found.append(f"docs/adr: {numbers.count(number)} have number {number}")
    for number, file in zip(numbers, files):
        text = file.read_text()
        words = len(re.findall(r"\S*\w\S*", text))
        if words > WORDS and number not in LONGER:
            found.append(f"{file.name}: {words} words; at most {WORDS}")
        if words <= WORDS and number in LONGER:
            found.append(f"{file.name}: short enough; take it from LONGER")
        if not text.startswith(f"# {number}. "):
            found.append(f"{file.name}: its title does not begin with {number}")
        found += [f"{file.name}: no '{part.strip()}'"
                  for part in PARTS if part not in text]
    for file in sources(root):
        for named in NAMED.finditer(file.read_text(errors="replace")):
            if int(named[1] or named[2]) not in numbers:
                found.append(f"{file.relative_to(root)}: there is no {named[0]}")
    return found


def sources(root: pathlib.Path) -> list[pathlib.Path]:
    """Files that may name a decision."""
    within = [file for folder in FOLDERS for file in (root / folder).rglob("*")
              if file.suffix in SUFFIXES and "node_modules" not in file.parts]
    return [file for file in [*root.glob("*.md"), *within] if file.is_file()]


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    found = problems(root)
    print("\n".join(found) or "decisions are short and without holes")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
