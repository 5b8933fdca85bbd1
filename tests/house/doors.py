"""What keeps the house as docs/architecture.md draws it.

    python3 tests/house/doors.py ROOT            fails if a rule below is broken
    python3 tests/house/doors.py ROOT --rooms    prints rooms.txt anew, in its order

- rooms.txt lists the rooms from top to bottom, each with the rooms that it
  includes or imports. An arrow that it does not list, one that is gone, and one
  that runs upwards without being marked (^) fail.
- exceptions.txt lists folders with more than FOLDER sources, classes with more
  than CLASS public methods, and abstract classes with one implementation; each
  with its number. They may only shrink: a smaller number must be written there.
- A path of the repository in a comment exists, and is not in a top-level room
  above the comment's own.

Golden plans are compared by golden_plans_test.cc, skipped tests by tests/skips.py.
"""

import collections
import os
import pathlib
import re
import sys

FOLDER = 20  # sources, a header with its source counting once
CLASS = 30  # public methods
PACKAGE = "client/python/"
PATH = re.compile(
    r"(?<![\w/.{-])((?:agent|base|client|cmake|coordinator|deploy|device|docs|proto"
    r"|solver|tests)/[\w./{},*-]*\w)")
METHOD = re.compile(r"^\s*(?!return\b|using\b|typedef\b|friend\b|static_assert\b)"
                    r"(?:[\w:<>,&*\[\]~]+[ \n]+)*~?\w+\(", re.M)


def files_of(root):
    for folder, inner, names in os.walk(root):
        inner[:] = [i for i in inner if i != "build" and i != "node_modules"
                    and not i.startswith(".")]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root)


def is_product(name):
    return (name.endswith((".cc", ".h", ".hpp", ".py", ".ts"))
            and not name.startswith(("tests/", "docs/")))


# Rooms ----------------------------------------------------------------------


def included(name, text):
    """The files, or folders of Python packages, that a source names."""
    if name.endswith(".py"):
        for module in re.findall(
                r"^\s*(?:from|import)\s+(ucudnn[\w.]*)", text, re.M):
            yield PACKAGE + module.replace(".", "/")
    elif name.endswith((".cc", ".h", ".hpp")):
        for path in re.findall(r'^#include "([^"]+)"', text, re.M):
            yield path
        for path in re.findall(r"^#include <(ucudnn/[^>]+)>", text, re.M):
            yield "client/include/" + path


def read_rooms(root):
    rooms = {}
    for line in (root / "tests/house/rooms.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            room, _, allowed = line.partition(":")
            rooms[room] = allowed.split()
    return rooms


def room_of(path, rooms):
    parts = path.split("/")
    for length in range(len(parts), 0, -1):
        room = "/".join(parts[:length])
        if room in rooms:
            return room
    return None


def arrows_of(sources, rooms):
    """{room: {room that it includes: a file that does}}."""
    arrows = collections.defaultdict(dict)
    for name, text in sources.items():
        room = room_of(name, rooms)
        for path in included(name, text):
            # Generated from proto/; and the libraries' own public headers.
            path = re.sub(r"^ucudnn/v1/", "proto/", path)
            path = re.sub(r"^ucudnn/", "client/include/ucudnn/", path)
            other = room_of(path, rooms)
            if room and other and room != other:
                arrows[room].setdefault(other, name)
    return arrows


def drawn(rooms, arrows):
    order = list(rooms)
    for room in order:
        names = sorted(arrows.get(room, ()), key=order.index)
        marked = ["^" * (order.index(n) < order.index(room)) + n for n in names]
        yield f"{room}: {' '.join(marked)}".rstrip()


def check_rooms(sources, rooms):
    for name in sources:
        if room_of(name, rooms) is None:
            yield f"{name}: in no room of tests/house/rooms.txt"
    arrows = arrows_of(sources, rooms)
    for (room, allowed), line in zip(rooms.items(), drawn(rooms, arrows)):
        found = line.partition(":")[2].split()
        for other in sorted(set(found) - set(allowed)):
            name = arrows[room][other.lstrip("^")]
            yield (f"{name}: {room} includes {other.lstrip('^')}, which "
                   "tests/house/rooms.txt does not list"
                   + ("; it runs upwards" if "^" in other else ""))
        for other in sorted(set(allowed) - set(found)):
            yield f"tests/house/rooms.txt: {room} no longer includes {other}"


# Sizes ----------------------------------------------------------------------


def folders(sources):
    sizes = collections.defaultdict(set)
    for name in sources:
        folder, stem = os.path.split(os.path.splitext(name)[0])
        sizes[folder].add(stem)
    return {f"folder {folder}": len(stems)
            for folder, stems in sizes.items() if len(stems) > FOLDER}


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def classes(text):
    """(name, bases, body without inner braces) of each class and struct."""
    text = without_comments(text)
    for found in re.finditer(
            r"\b(class|struct)\s+(\w+)(?:\s+final)?\s*(:[^{};()]*)?\{", text):
        depth, body = 1, []
        for char in text[found.end():]:
            depth += (char == "{") - (char == "}")
            if depth == 0:
                break
            if depth == 1 or (depth == 2 and char == "{"):
                body.append(";" if char == "{" else char)
        yield found[1], found[2], found[3] or "", "".join(body)


def methods(kind, body):
    """How many public methods a class declares."""
    parts = re.split(r"^\s*(public|private|protected)\s*:", body, flags=re.M)
    sections = [("public" if kind == "struct" else "private", parts[0]),
                *zip(parts[1::2], parts[2::2])]
    public = ";".join(part for access, part in sections if access == "public")
    return sum(bool(METHOD.search(declaration))
               for declaration in public.split(";") if "(" in declaration)


def large_and_lonely(sources, tests):
    """Classes with too many methods, and abstract ones with one implementation."""
    found, abstract, implementations = {}, {}, collections.Counter()
    for name, text in {**sources, **tests}.items():
        if not name.endswith((".h", ".hpp", ".cc")):
            continue
        for kind, own, bases, body in classes(text):
            for base in set(re.findall(r"(\w+)\s*(?:<[^>]*>)?\s*(?:,|$)",
                                       bases.strip(": \n"))):
                implementations[base] += 1
            if name not in sources or name.endswith(".cc"):
                continue
            count = methods(kind, body)
            if count > CLASS:
                found[f"class {own}"] = count
            if "virtual" in body and re.search(r"\)[^;]*=\s*0\s*;", body):
                abstract[own] = name
    found.update({f"abstract {own}": implementations[own]
                  for own in abstract if implementations[own] < 2})
    return found


def check_exceptions(root, found):
    listed = {}
    for line in (root / "tests/house/exceptions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            what, _, number = line.rpartition(" ")
            listed[what] = int(number)
    for what, number in found.items():
        if listed.get(what) != number:
            yield (f"{what}: {number}, tests/house/exceptions.txt says "
                   f"{listed.get(what, 'nothing')}")
    for what in set(listed) - set(found):
        yield f"tests/house/exceptions.txt: {what} is no longer one"


# Comments -------------------------------------------------------------------


def spelt_out(path):
    """Of a path with {a,b}, each."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if braces is None:
        return [path]
    return [one for option in braces[1].split(",") for one in spelt_out(
        path[:braces.start()] + option + path[braces.end():])]


def check_comments(root, sources, known, rooms):
    tops = list(dict.fromkeys(room.split("/")[0] for room in rooms))
    for name, text in sources.items():
        own = name.split("/")[0]
        comment = re.compile(r"#.*" if name.endswith(".py") else r"//.*")
        for number, line in enumerate(text.splitlines(), 1):
            found = comment.search(line)
            if not found or line.startswith(("#include", "#!")):
                continue
            for path in PATH.findall(found[0]):
                top = path.split("/")[0]
                if own in tops and top in tops[:tops.index(own)]:
                    yield f"{name}:{number}: {path} is in a room above"
                for one in spelt_out(path):
                    # Without an ending too; and NAME.csv is of any name.
                    pattern = re.sub(r"\b[A-Z]{2,}\b", "*", one)
                    if one not in known and not any(
                            any(root.glob(pattern + end))
                            for end in ("", ".*", "-*")):
                        yield f"{name}:{number}: {one} does not exist"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    names = list(files_of(root))
    texts = {name: (root / name).read_text() for name in names
             if name.endswith((".cc", ".h", ".hpp", ".py", ".ts"))}
    sources = {name: text for name, text in texts.items() if is_product(name)}
    tests = {name: text for name, text in texts.items()
             if name.startswith("tests/")}
    rooms = read_rooms(root)
    if "--rooms" in sys.argv:
        print(*drawn(rooms, arrows_of(sources, rooms)), sep="\n")
        return 0
    known = {*names, *(os.path.dirname(name) for name in names)}
    broken = [*check_rooms(sources, rooms),
              *check_exceptions(root, {**folders(sources),
                                       **large_and_lonely(sources, tests)}),
              *check_comments(root, texts, known, rooms)]
    print(*broken, sep="\n")
    print(f"{len(sources)} sources of {len(rooms)} rooms, {len(broken)} rules broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
