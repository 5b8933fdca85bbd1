"""Checks that what the documents name exists.

    python3 check_links.py SOURCE_FOLDER

In README.md, CHANGELOG.md and docs/: the targets of links with the headings that
they name, and the paths in backticks that begin with a folder of the project.
Results describe what was measured in their time, so only their links are
checked. README.md has at most 140 lines.
"""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
PATH = re.compile(
    r"`((?:base|solver|device|proto|agent|coordinator|client|deploy|tests|docs)"
    r"/[\w./-]*[\w/])`"
)

README_LINES = 140


def problems(root: pathlib.Path, page: pathlib.Path) -> list[str]:
    found = []
    history = "results" in page.parts
    for number, line in enumerate(page.read_text().splitlines(), 1):
        named = [(page.parent, *link) for link in LINK.findall(line)]
        if not history:
            named += [(root, path, "") for path in PATH.findall(line)]
        for folder, name, heading in named:
            target = folder / name if name else page
            place = f"{page.relative_to(root)}:{number}"
            if "://" in name:
                continue
            if not exists(target):
                found.append(f"{place}: no {name}")
            elif heading and heading not in anchors(target):
                found.append(f"{place}: no heading {heading} in {target.name}")
    return found


def anchors(page: pathlib.Path) -> set[str]:
    """The headings of a page as mkdocs and GitHub name them in addresses."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", text).strip().lower() for text in headings]
    return {re.sub(r"[\s-]+", "-", text) for text in plain}


def exists(path: pathlib.Path) -> bool:
    """A path, or one named without its extension or by its beginning."""
    return path.exists() or any(path.parent.glob(path.name + "*"))


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = [root / "README.md", root / "CHANGELOG.md"]
    pages += sorted((root / "docs").rglob("*.md"))
    found = [text for page in pages for text in problems(root, page)]
    lines = len(pages[0].read_text().splitlines())
    if lines > README_LINES:
        found.append(f"README.md: {lines} lines; at most {README_LINES}")
    print("\n".join(found) or f"{len(pages)} pages, no broken link or path")
    return 1 if found or len(pages) < 3 else 0


if __name__ == "__main__":
    sys.exit(main())
