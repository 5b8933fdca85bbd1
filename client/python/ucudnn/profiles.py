"""Measurements as plain objects, and their CSV. Times are in microseconds,
sizes in bytes."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Iterable,
    Mapping,
    Optional,
    Sequence,
    TypeVar,
    Union,
)

from ucudnn.errors import InvalidArgument
from ucudnn.files import PathLike, read_bytes
from ucudnn.library import OpenedProfile
from ucudnn.shown import Shown, Table

if TYPE_CHECKING:  # a part of Python's typing since 3.11
    from typing_extensions import Self

_Row = TypeVar("_Row", "Measurement", "Time")


@dataclass(frozen=True)
class Measurement:
    """One algorithm on one batch of one kernel. Rows of one point are repeated
    measurements; their median counts. `others` holds the file's other columns
    (problem, spread_us, repeats, ...) as text; the solvers get them unchanged."""

    device: str
    network: str
    layer: str
    op: str  # "forward", "backward_data", "backward_filter"
    precision: str
    layout: str
    batch: int
    algorithm: str
    math: str
    workspace_bytes: int
    time_us: float
    others: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Time:
    """The time of one GPU for an iteration on a batch."""

    gpu: str
    batch: int
    time_us: float
    model: str = ""


@dataclass(frozen=True)
class Buffer:
    """Memory that is live from `lower` until before `upper`."""

    id: str
    lower: int
    upper: int
    size: int


BuffersLike = Union[PathLike, Iterable[Buffer]]


@dataclass(repr=False)
class _Rows(Generic[_Row], Shown):
    """Rows of CSV, in the order of the file."""

    rows: list[_Row] = field(default_factory=list)
    _row: ClassVar[Any]  # their type

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Reads CSV, plain or gzip. Raises InvalidArgument if it is malformed."""
        return cls.from_csv(_read_text(path), str(path))

    @classmethod
    def from_csv(cls, text: str, source: str = "") -> Self:
        return cls(_read_rows(cls._row, text, source or cls.__name__.lower()))

    def to_csv(self) -> str:
        return _to_csv(self._row, self.rows)

    def write(self, path: PathLike) -> None:
        """Writes CSV; compressed if the name ends in .gz."""
        data = self.to_csv().encode()
        Path(path).write_bytes(
            gzip.compress(data) if str(path).endswith(".gz") else data
        )


@dataclass(repr=False)
class Profile(_Rows[Measurement]):
    """Measurements, in the order of the file. The solvers' library parses them
    once, and again after `rows` changed."""

    _row = Measurement

    def __post_init__(self) -> None:
        self._opened: Optional[tuple[list[Measurement], OpenedProfile]] = None

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows, "_opened": None}

    def where(self, **columns: Any) -> Profile:
        """The rows whose columns have these values: where(layer="conv2")."""
        known = {f.name for f in fields(Measurement)} - {"others"}
        for name in columns:
            if name not in known:
                raise InvalidArgument(
                    f"a profile has no column {name!r}; there are "
                    + ", ".join(sorted(known))
                )
        return Profile(
            [
                row
                for row in self.rows
                if all(getattr(row, n) == v for n, v in columns.items())
            ]
        )

    @property
    def devices(self) -> list[str]:
        """The distinct devices, in the order of the file."""
        return list(dict.fromkeys(row.device for row in self.rows))

    def opened(self) -> OpenedProfile:
        """The measurements as the solvers' library holds them. Raises
        InvalidArgument if they are malformed."""
        kept = self._opened
        # Comparing the same objects takes microseconds.
        if kept is None or kept[0] != self.rows:
            kept = list(self.rows), OpenedProfile(self.to_csv())
            self._opened = kept
        return kept[1]

    def _table(self) -> Table:
        counts: dict[tuple[str, ...], list[int]] = {}
        for row in self.rows:
            kernels = (row.device, row.network, row.precision, row.layout)
            counts.setdefault(kernels, []).append(row.batch)
        return Table(
            f"Profile of {len(self.rows)} measurements",
            ("device", "network", "precision", "layout", "rows", "batches"),
            [(*names, len(b), f"{min(b)} to {max(b)}") for names, b in counts.items()],
        )


@dataclass(repr=False)
class Times(_Rows[Time]):
    """Iteration times of GPUs. Their CSV has the columns gpu, batch, time_us or
    ms_per_iteration, and optionally model."""

    _row = Time

    def _table(self) -> Table:
        counts: dict[tuple[str, str], list[Time]] = {}
        for row in self.rows:
            counts.setdefault((row.gpu, row.model), []).append(row)
        return Table(
            f"Times of {len(self.rows)} iterations",
            ("gpu", "model", "rows", "batches"),
            [
                (
                    *names,
                    len(rows),
                    f"{min(r.batch for r in rows)} to " f"{max(r.batch for r in rows)}",
                )
                for names, rows in counts.items()
            ],
        )


def _read_text(path: PathLike) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path}: {error}") from error


def _to_csv(row_type: type[_Row], rows: Iterable[_Row]) -> str:
    rows = list(rows)
    names = [f.name for f in fields(row_type) if f.name != "others"]
    others = list(dict.fromkeys(name for row in rows for name in _others(row)))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names + others)
    for row in rows:
        more = _others(row)
        writer.writerow(
            [_text(getattr(row, name)) for name in names]
            + [more.get(name, "") for name in others]
        )
    return out.getvalue()


def _others(row: Union[Measurement, Time]) -> Mapping[str, str]:
    return row.others if isinstance(row, Measurement) else {}


def _text(value: Union[str, int, float]) -> str:
    if type(value) in (str, int):  # nearly all; isinstance takes ten times longer
        return str(value)
    # At most three decimals, without an exponent: times in whole nanoseconds.
    if isinstance(value, Real) and not isinstance(value, Integral):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return str(value)


def _read_rows(row_type: type[_Row], text: str, source: str) -> list[_Row]:
    reader = csv.reader(io.StringIO(text))
    header: list[str] = next(reader, [])
    columns = []
    for f in fields(row_type):
        if f.name == "others":
            continue
        parse: Any = {"int": int, "float": float}.get(str(f.type), str)
        name, scale = f.name, 1.0
        if name not in header and name == "time_us" and row_type is Time:
            name, scale = "ms_per_iteration", 1000.0
        if name in header:
            columns.append((name, header.index(name), parse, scale))
        elif f.name != "model":
            raise InvalidArgument(
                f"{source}:1: no column {f.name}; there are {', '.join(header)}"
            )
    named = {index for _, index, _, _ in columns}
    others = [
        (name, index)
        for index, name in enumerate(header)
        if row_type is Measurement and index not in named
    ]
    rows: list[_Row] = []
    for fields_of_row in reader:
        if not fields_of_row:
            continue
        place = f"{source}:{reader.line_num}"
        if len(fields_of_row) != len(header):
            raise InvalidArgument(
                f"{place}: {len(fields_of_row)} fields; the header has "
                f"{len(header)}"
            )
        values = _values(fields_of_row, columns, place)
        if row_type is Measurement:
            values.append({n: fields_of_row[i] for n, i in others})
        rows.append(row_type(*values))
    return rows


def _values(row: Sequence[str], columns: Sequence[Any], place: str) -> list[Any]:
    values = []
    for name, index, parse, scale in columns:
        try:
            value = parse(row[index])
        except ValueError as error:
            kind = "a whole number" if parse is int else "a number"
            raise InvalidArgument(
                f"{place}: {name}: {row[index]!r}; {kind} is accepted"
            ) from error
        values.append(value * scale if parse is float else value)
    return values


def csv_of(source: Union[Profile, Times, PathLike]) -> str:
    """The CSV of an object, or of the named file."""
    if isinstance(source, (Profile, Times)):
        return source.to_csv()
    return _read_text(source)


def opened_of(source: Union[Profile, PathLike]) -> OpenedProfile:
    """The profile in the solvers' library; of a file, parsed for this."""
    if isinstance(source, Profile):
        return source.opened()
    return OpenedProfile(_read_text(source))


def csv_of_buffers(buffers: BuffersLike) -> str:
    """The CSV of buffers, or of the file that is named."""
    if isinstance(buffers, (str, Path)):
        return _read_text(buffers)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in fields(Buffer))
    writer.writerows((b.id, b.lower, b.upper, b.size) for b in buffers)
    return text.getvalue()
