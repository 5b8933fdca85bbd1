"""Makes docs/papers.md, "The papers' claims beside ours", from docs/papers.toml.

    python3 papers.py SOURCE_FOLDER            writes the page
    python3 papers.py SOURCE_FOLDER --check    fails unless the page is that

Every figure, table and claim that a paper lists has a row. A row says where in the
paper, what is claimed there, and `ours`: a text with {formulas} of numbers that
the program takes from committed results, or the reason why there is none (`why`).
A formula is arithmetic on names, followed by how Python formats it: {a/b:.2f}.
Beside names it has powers of ten and two only: units are converted, no number is
typed. Each name picks one number of a file in docs/results:

    "wr alexnet 64 all ms"    the value of that name in the file named `solved`
    ["x.md", "words of | the row", "column"]   a table's cell, its first number
    ["x.md" or "x.txt.gz", "text (\\\\d+) text"]    what the group matches, once
    ["x.csv", "network=vgg16 batch=64", "time_us"]    a record of a CSV, JSON or
        JSON-lines file; lists in it by dots: "limits.limit_bytes=8 network=vgg16".
        Of an object of objects each is a record, with its name as `key`; a list of
        numbers counts as its median
    [..., "mean"]    or max, count, of all records, or texts of a .txt, that match

It fails if a file or a listed claim is missing, a pick matches nothing or more than
one, `ours` has a number typed by hand (`on` and `why`: a fraction), a cell is too
long for a reader, or a path or test that the equations name is not there.
"""

import ast
import csv
import functools
import gzip
import io
import json
import operator
import pathlib
import re
import statistics
import sys
import tomllib

CELL = 150  # characters that a reader sees of a cell
ROWS = 60  # at least
UNITS = {1, 2, 100, 1000, 1024, 1e6, 1e9, 2**20, 2**30}
SIGNED = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub,
             ast.Mult: operator.mul, ast.Div: operator.truediv}
OVER_ALL = {"mean": statistics.fmean, "max": max, "count": len}
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


class Wrong(Exception):
    """What keeps a row from having its number."""


# Numbers ---------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def text_of(path):
    if not path.is_file():
        raise Wrong(f"there is no {path.name}")
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def number(text):
    found = SIGNED.search(text)
    if not found:
        raise Wrong(f"'{text}' has no number")
    return float(found.group().replace(",", "").replace("−", "-"))


def only(matches, what):
    if len(matches) != 1:
        raise Wrong(f"{what} matches {len(matches)} times, not once")
    return matches[0]


def cell_of(text, words, column):
    """The cell in `column` of the table row that has `words`."""
    header, matches = [], []
    before = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if line.startswith("|") and not before.startswith("|"):
            header = cells
        cells = [cell.strip() for cell in line[1:].rstrip()[:-1].split("|")]
        has = line.startswith("|") and words in " ".join(line.split())
        if has and column in header:
            matches.append(cells[header.index(column)])
        before = line
    return only(matches, f"row '{words}' of a table with a column '{column}'")


def records_of(path):
    name, text = path.name.removesuffix(".gz"), text_of(path)
    if name.endswith(".csv"):
        return list(csv.DictReader(io.StringIO(text)))
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    data = json.loads(text)
    if isinstance(data, dict) and all(isinstance(one, dict) for one in data.values()):
        data = [{"key": key, **one} for key, one in data.items()]
    return data if isinstance(data, list) else [data]


def flattened(record, names):
    """The record once for each element of a list or object that a name is in."""
    record = {name.replace(" ", "_"): value for name, value in record.items()}
    rows = [record]
    for prefix in sorted({n.partition(".")[0] for n in names if "." in n}):
        inner = record.get(prefix, [])
        inner = inner if isinstance(inner, list) else [inner]
        named = [{f"{prefix}.{key}": value for key, value in one.items()}
                 for one in inner]
        rows = [{**row, **one} for row in rows for one in named]
    return rows


def record_value(path, where, formula, over_all=None):
    terms = [(name, quoted or plain) for name, quoted, plain in
             re.findall(r"([\w.]+)=(?:'([^']*)'|(\S+))", where)]
    names = [name for name, _ in terms] + re.findall(r"[a-z_]+\.[\w.]+", formula)
    rows = [row for record in records_of(path) for row in flattened(record, names)
            if all(str(row.get(name)) == value for name, value in terms)]
    if over_all is None:
        rows = [only(rows, f"record '{where}'")]
    if not rows:
        raise Wrong(f"record '{where}' matches 0 times")
    tree = formula.replace(".", "__")
    values = [value_of(tree, {n.replace(".", "__"): value for n, value in row.items()})
              for row in rows]
    return values[0] if over_all is None else OVER_ALL[over_all](values)


def pick(results, words):
    """The number that `words` pick from a file of docs/results."""
    path = results / words[0]
    if not path.is_file():
        raise Wrong(f"there is no docs/results/{words[0]}")
    name = path.name.removesuffix(".gz")
    if len(words) == 2 or name.endswith(".txt"):
        matches = re.findall(words[1], " ".join(text_of(path).split()))
        if matches and words[2:]:
            return OVER_ALL[words[2]]([number(match) for match in matches])
        return number(only(matches, f"'{words[1]}'"))
    if name.endswith(".md"):
        return number(cell_of(text_of(path), *words[1:]))
    return record_value(path, *words[1:])


def value_of(formula, numbers):
    def of(node):
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.Constant) and node.value in UNITS:
            return node.value
        if isinstance(node, ast.Name) and node.id in numbers:
            value = numbers[node.id]
            return statistics.median(value) if isinstance(value, list) else float(value)
        raise Wrong(f"'{formula}' is not arithmetic on {', '.join(numbers)} and units")

    return of(ast.parse(formula, mode="eval").body)


def picks_of(row, table):
    """`from`, where a name alone is the value of that name in what was solved."""
    return {name: [table["solved"], f"name='{words}'", "value"]
            if isinstance(words, str) else words for name, words in row["from"].items()}


def ours_of(row, picks, results):
    """The text with its numbers; a word that begins with a letter may have digits."""
    typed = re.sub(r"\{[^}]*\}|`[^`]*`", "", row["ours"])
    if hand := re.search(r"(?<![\w-])\d[\d.,]*", typed):
        raise Wrong(f"'{hand.group()}' is typed by hand")
    numbers = {name: pick(results, words) for name, words in picks.items()}
    used = set()

    def shown(match):
        used.update(node.id for node in ast.walk(ast.parse(match[1], mode="eval"))
                    if isinstance(node, ast.Name))
        return format(value_of(match[1], numbers), match[2] or "g")

    text = re.sub(r"\{([^}:]+):?([^}]*)\}", shown, row["ours"])
    if used != set(numbers):
        raise Wrong(f"{', '.join(sorted(set(numbers) - used))} is not used")
    return text


# The page --------------------------------------------------------------------


def places_of(text):
    """"figures 2 to 4, 7; table V" as {"figure 2", "figure 3", ...}."""
    found = set()
    for part in text.split(";"):
        kind, _, listed = part.strip().partition(" ")
        for item in listed.split(","):
            first, _, last = item.strip().partition(" to ")
            names = [first]
            if last:
                names = [str(n) for n in range(int(first), int(last) + 1)]
            found |= {f"{kind.rstrip('s')} {name}" for name in names}
    return found


def source_of(picks):
    """The results page that the first number is from, and its date."""
    file = next(iter(picks.values()))[0]
    stem = file.partition("/")[0].removesuffix(".md")
    _, month, day = re.search(r"(\d{4})-(\d\d)-(\d\d)$", stem).groups()
    return stem, f"[{MONTHS[int(month) - 1]} {int(day)}](results/{stem}.md)"


def line_of(row, table, results):
    for key in ("on", "why"):
        if fraction := re.search(r"(?<![\w.-])\d+\.\d+", row.get(key, "")):
            raise Wrong(f"'{fraction.group()}' is typed by hand in `{key}`")
    if "why" in row:
        return f"| {row['in']} | {row['claim']} | – | {row['why']} | | |"
    picks = picks_of(row, table)
    stem, since = source_of(picks)
    command = row.get("command") or table["commands"].get(stem)
    if not command:
        raise Wrong(f"no command makes {stem}")
    return (f"| {row['in']} | {row['claim']} | {ours_of(row, picks, results)} "
            f"| {row['on']} | {since} | `{command}` |")


def paper_of(paper, table, results, found):
    lines = [f"## {paper['name']}", "", paper["about"], "",
             "| in the paper | claimed there | ours | on, or why there is none "
             "| since, 2026 | command |",
             "|---|---|---|---|---|---|"]
    missing = places_of(paper["lists"])
    for row in paper["row"]:
        missing -= places_of(row["in"])
        for place in sorted(places_of(row["in"]) - places_of(paper["lists"])):
            found.append(f"{paper['name']}: {place} is not listed")
        try:
            if ("why" in row) == ("ours" in row):
                raise Wrong("either `ours` or `why` has to be there")
            lines.append(line_of(row, table, results))
        except Wrong as wrong:
            found.append(f"{paper['name']}, {row['in']}, {row['claim']}: {wrong}")
    found += [f"{paper['name']}: {place} has no row" for place in sorted(missing)]
    return lines


def readable(lines, found):
    """Cells that nobody reads: too long, links counted by their words."""
    for line in lines:
        if line.startswith("|"):
            for cell in line.strip("|").split(" | "):
                seen = re.sub(r"\]\([^)]*\)|[`*\[]", "", cell).strip()
                if len(seen) > CELL:
                    found.append(f"{len(seen)} characters in a cell: {seen[:60]}...")


def equations_hold(root, text, found):
    """Paths between backticks exist, and tests that are named stand in a test."""
    for path in re.findall(r"`([\w./-]+\.(?:cc|h|py|md))`", text):
        if "/" in path and not (root / path).exists():
            found.append(f"equations: there is no {path}")
    known = "".join(file.read_text() for folder in ("tests",)
                    for kind in ("*_test.cc", "test_*.py")
                    for file in (root / folder).rglob(kind))
    for name in re.findall(r"`([A-Z]\w+|test_\w+)`", "\n".join(
            line.rpartition(" | ")[2] for line in text.splitlines())):
        if name not in known:
            found.append(f"equations: no test has {name}")


def page_of(root, table):
    """The page's text, how many rows it has, and what is wrong."""
    found, rows = [], [row for paper in table["paper"] for row in paper["row"]]
    reasons = sum("why" in row for row in rows)
    count = (f"{len(rows)} rows: {len(rows) - reasons} with numbers of ours, "
             f"{reasons} with a reason")
    if len(rows) < ROWS:
        found.append(f"{len(rows)} rows, not at least {ROWS}")
    lines = [f"# {table['title']}", "", *table["about"].strip().splitlines(),
             "", f"{count}."]
    for paper in table["paper"]:
        lines += ["", *paper_of(paper, table, root / "docs/results", found)]
    lines += ["", *table["equations"].strip().splitlines()]
    readable(lines, found)
    equations_hold(root, table["equations"], found)
    return "\n".join(lines) + "\n", count, found


def main(arguments):
    root = pathlib.Path(arguments[0]).resolve()
    page = root / "docs/papers.md"
    table = tomllib.loads((root / "docs/papers.toml").read_text())
    text, count, found = page_of(root, table)
    if arguments[1:] == ["--check"]:
        if not page.is_file() or page.read_text() != text:
            found.append("docs/papers.md is not what tests/docs/papers.py makes")
    elif not found:
        page.write_text(text)
    print("\n".join(found) or count)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
