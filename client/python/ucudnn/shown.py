"""How results look in a terminal and in a notebook: a title and a table that fit
a screen."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any, Sequence

_MOST_ROWS = 16  # a screen has 24 lines
PREDICTED = "predicted (convolutions only)"  # a time, but of a memory plan
_WIDEST = 40  # characters of a cell


@dataclass(frozen=True)
class Table:
    """Its first rows are shown. `notes` are lines below."""

    title: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    notes: Sequence[str] = ()

    def _left_out(self) -> str:
        more = len(self.rows) - _MOST_ROWS
        return f"... and {more} more" if more > 0 else ""

    def text(self) -> str:
        lines = [self.title]
        shown = [self.header, *self.rows[:_MOST_ROWS]] if self.rows else []
        rows = [[_cut(str(cell)) for cell in row] for row in shown]
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths)]
            lines.append("  " + "  ".join(cells).rstrip())
        if self._left_out():
            lines.append("  " + self._left_out())
        return "\n".join([*lines, *self.notes])

    def html(self) -> str:
        """Everything is escaped: names come from files and services."""
        parts = [f"<p>{html.escape(self.title)}</p>"]
        if self.rows:
            head = "".join(f"<th>{html.escape(h)}</th>" for h in self.header)
            body = "".join(
                "<tr>"
                + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row)
                + "</tr>"
                for row in self.rows[:_MOST_ROWS]
            )
            parts.append(f"<table><tr>{head}</tr>{body}</table>")
        for line in filter(None, [self._left_out(), *self.notes]):
            parts.append(f"<p>{html.escape(line)}</p>")
        return "<div>" + "".join(parts) + "</div>"


class Shown:
    """Shows itself as the table that `_table` returns."""

    def _table(self) -> Table:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()


def _cut(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else cell[: _WIDEST - 3] + "..."
