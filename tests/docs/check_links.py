"""Checks that what the documents name exists.

    python3 check_links.py SOURCE_FOLDER

In README.md, CHANGELOG.md and docs/: the targets of links with the headings that
they name, and the paths in backticks that begin with a folder of the project.
Results describe what was measured in their time, so only their links are
checked. In docs/architecture.md every path or file name in backticks is one of the
tree, whole or by its end. README.md has at most 140 lines.
"""

import fnmatch
import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]*))?\)")
PATH = re.compile(
    r"`((?:base|solver|device|proto|agent|coordinator|client|deploy|tests|docs|cmake)"
    r"/[\w./-]*[\w/])`"
)

# A path has a slash or an ending of our files; braces and stars stand for several.
WHOLE_PATH = re.compile(
    r"`((?:[\w.*{},-]+/)+[\w.*{},-]*"
    r"|[\w*-]+\.(?:cc|cmake|h|hpp|json|md|proto|py|sh|toml|ts|txt))`"
)
BRACES = re.compile(r"\{([^}]*)\}")
NOT_OURS = {".git", "build", "node_modules", "__pycache__"}

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


def absent_paths(root: pathlib.Path, page: pathlib.Path) -> list[str]:
    """Whole paths that a page names and the tree lacks."""
    tree = ["/" + path for path in paths_of(root, "")]
    found = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for named in WHOLE_PATH.findall(line):
            if named.startswith("build/"):
                continue
            for path in expanded(named.rstrip("/")):
                if not fnmatch.filter(tree, "*/" + path):
                    found.append(f"{page.relative_to(root)}:{number}: no {path}")
    return found


def paths_of(root: pathlib.Path, folder: str) -> list[str]:
    found = []
    for entry in sorted((root / folder).iterdir()):
        if entry.name in NOT_OURS:
            continue
        path = str(entry.relative_to(root))
        found.append(path)
        if entry.is_dir() and not entry.is_symlink():
            found += paths_of(root, path)
    return found


def expanded(path: str) -> list[str]:
    """The paths that one with braces stands for."""
    braces = BRACES.search(path)
    if not braces:
        return [path]
    return [
        other
        for choice in braces[1].split(",")
        for other in expanded(path[: braces.start()] + choice + path[braces.end() :])
    ]


def exists(path: pathlib.Path) -> bool:
    """A path, or one named without its extension or by its beginning."""
    return path.exists() or any(path.parent.glob(path.name + "*"))


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = [root / "README.md", root / "CHANGELOG.md"]
    pages += sorted((root / "docs").rglob("*.md"))
    found = [text for page in pages for text in problems(root, page)]
    found += absent_paths(root, root / "docs/architecture.md")
    lines = len(pages[0].read_text().splitlines())
    if lines > README_LINES:
        found.append(f"README.md: {lines} lines; at most {README_LINES}")
    found = list(dict.fromkeys(found))
    print("\n".join(found) or f"{len(pages)} pages, no broken link or path")
    return 1 if found or len(pages) < 3 else 0


if __name__ == "__main__":
    sys.exit(main())
