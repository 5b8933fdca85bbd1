"""The soak of tests/soak.py finds what grows without bound."""

import sys

sys.dont_write_bytecode = True
import soak

KIB = 50 * 1024


def rows(count=100, kib=lambda i: KIB, fds=lambda i: 40, size=lambda i: 1 << 27, pid=1):
    return [{"t": 0.0, "seed": 1}] + [
        {
            "t": 10.0 * i,
            "coordinators": [
                {"pid": pid, "rss_kib": kib(i), "fds": fds(i), "threads": 50}
            ],
            "rows": {"plans": 1000 + 10 * i},
            "database_bytes": size(i),
        }
        for i in range(count)
    ]


# What goes up and down, what grows in the first five minutes, and a database that grows with its
# rows.
assert soak.growths(rows(fds=lambda i: 40 + 30 * (i % 2))) == []
assert soak.growths(rows(fds=lambda i: 40 + 3 * min(i, 30))) == []
assert soak.growths(rows(size=lambda i: (1 << 20) * (1000 + 10 * i))) == []
# The moments after a kill.
assert soak.growths(rows(kib=lambda i: KIB if i < 99 else 0)) == []
# Leaks.
(found,) = soak.growths(rows(fds=lambda i: 40 + 2 * i))
assert found.startswith("fds of coordinator 0, process 1: 68 more in 340 s"), found
(found,) = soak.growths(rows(kib=lambda i: KIB + 2000 * i))
assert "rss_kib of coordinator 0" in found, found
(found,) = soak.growths(rows(size=lambda i: (1 << 20) * (1000 + 90 * i)))
assert found.startswith("the database: "), found
print("ok")
