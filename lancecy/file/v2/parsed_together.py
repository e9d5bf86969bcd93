"""The columns of several 2.x files, parsed in one pass over their metadata.

One kernel call fills arrays with the pages and buffers of all columns of all files. They are cut into the columns of each file
(:func:`parse_together`), or into columns that join those of all files (:func:`join_fields`). Whatever is damaged or stored in an
unusual way is left to each file's own ``FileColumns``, whose errors name the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lancecy.encodings.model.layouts import PageSpec, is_structural
from lancecy.encodings.model.pages import Column
from lancecy.encodings.several_files import is_apart, joined_column, may_be_joined
from lancecy.errors import FormatError, LanceError
from lancecy.file.v2.columns import FileColumns, Layout, layout_of, may_continue
from lancecy.file.v2.fields import Placed
from lancecy.file.v2.values import Prepared
from lancecy.file.v2.wire import (
    ColumnArrays,
    Parts,
    are_blobs,
    decode_column_arrays,
    stored_encodings,
)
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.store.base import Memory

__all__ = ["JoinedField", "bounded", "join_fields", "parse_together"]

Int64 = NDArray[np.int64]
T = TypeVar("T")

_FEW = 16
"""Fewer fields of files are parsed one file after the other in less time."""
_MOST_HELD = 8 << 20
"""Most bytes of metadata of several files that are copied together."""
_MOST_JOINED = 16 << 20
"""Most bytes of metadata of files whose fields are joined."""


def parse_together(files: Sequence[FileColumns], fields: Sequence[Field]) -> None:
    """Parse columns of fields in files, as far as their metadata is held; later reads find them parsed.

    Parameters
    ----------
    files : sequence of FileColumns
    fields : sequence of Field
        Top level, as for ``FileColumns.load``.

    Notes
    -----
    It raises nothing: a file or a field with an error, or that is stored in an unusual way, is left to its own read.
    """
    if len(files) * len(fields) < _FEW:
        for file in files if len(fields) > 1 else ():
            file.parse(fields)
        return
    groups: dict[tuple[object, ...], tuple[list[FileColumns], list[Field]]] = {}
    for file in files:
        unknown = [field for field in fields if field not in file.prepared]
        if unknown:
            container = file.container
            about = id(file.fields), container.version, container.num_columns, id(file.limits)
            groups.setdefault((*about, *map(id, unknown)), ([], unknown))[0].append(file)
    for alike, unknown in groups.values():
        placed = alike[0].fields.placed
        wanted = [(field, one) for field in unknown if (one := placed(field)).numbers and not one.packed]
        numbers = list(dict.fromkeys(number for _, one in wanted for number in one.numbers.values()))
        held = [file.container.held.memory.nbytes for file in alike]
        for some in bounded(alike, held, _MOST_HELD) if numbers else ():
            with suppress(LanceError):
                _parse_alike(some, wanted, numbers)


def bounded(items: Sequence[T], sizes: Sequence[int], most: int) -> Iterator[list[T]]:
    """The items in lists, each of at most this size in all, unless it is of one item.

    Parameters
    ----------
    items : sequence
    sizes : sequence of int
        Of each item.
    most : int

    Examples
    --------
    >>> list(bounded("abcd", [1, 2, 5, 1], 3))
    [['a', 'b'], ['c'], ['d']]
    """
    part: list[T] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        if part and total + size > most:
            yield part
            part, total = [], 0
        part.append(item)
        total += size
    if part:
        yield part


def _parse_alike(
    files: Sequence[FileColumns], wanted: Sequence[tuple[Field, Placed]], numbers: Sequence[int]
) -> None:
    """Parse these columns of files that have the same columns."""
    files = [file for file in files if file.container.is_whole]
    if not files:
        return
    parsed = _parsed(files, [numbers] * len(files))
    layouts: dict[tuple[int, ...], Layout | None] = {}
    for n, file in enumerate(parsed.files):
        columns = {number: parsed.column(n, place) for place, number in enumerate(numbers)}
        file.keep(columns)
        for field, placed in wanted:
            pages = [columns[number].specs for number in placed.numbers.values()]
            key = (id(placed), *map(id, pages))
            if key not in layouts:
                layouts[key] = _usual_layout(file, field, placed, pages)
            layout = layouts[key]
            by_node = {node: columns[number] for node, number in placed.numbers.items()}
            if layout is not None and layout.of_other_rows(by_node, file.container.num_rows) is None:
                file.prepared[field] = layout.prepared(by_node, file.specs)


def _parsed(files: Sequence[FileColumns], numbers: Sequence[Sequence[int]]) -> _ParsedColumns:
    """Columns of files that hold all their metadata; at least one file.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        One of them is damaged, or larger than the limits allow.
    """
    containers = [file.container for file in files]
    arrays = {id(mine): np.array(mine) for mine in numbers}
    pairs = [(container, arrays[id(mine)]) for container, mine in zip(containers, numbers, strict=True)]
    positions = np.array([container.positions[mine] for container, mine in pairs])
    lengths = np.array([container.lengths[mine] for container, mine in pairs])
    first, last = positions.min(axis=1), (positions + lengths).max(axis=1)
    ranges = zip(containers, first.tolist(), last.tolist(), strict=True)
    memories = [container.held.part(start, stop - start) for container, start, stop in ranges]
    begins = positions - first[:, None] + (np.cumsum(last - first) - (last - first))[:, None]
    memory = memories[0] if len(memories) == 1 else np.concatenate(memories)
    found = decode_column_arrays(Parts(memory, begins.ravel(), lengths.ravel()), files[0].limits)
    return _ParsedColumns(files, numbers, memory, found)


class _ParsedColumns:
    """Some columns of several files, as arrays for all of them.

    Parameters
    ----------
    files : sequence of FileColumns
    numbers : sequence of sequence of int
        Numbers of as many columns in each file.
    memory : (nbytes,) uint8
        Their metadata.
    found : ColumnArrays
        One file after the other, and so its columns.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        One of them is damaged, or larger than the limits allow.
    """

    def __init__(
        self,
        files: Sequence[FileColumns],
        numbers: Sequence[Sequence[int]],
        memory: Memory,
        found: ColumnArrays,
    ) -> None:
        first = files[0]
        self.files = files
        self.numbers = numbers
        self._per_file = len(numbers[0])
        self._found = found
        self._ends = np.zeros((2, found.counts.shape[0] + 1), np.int64)
        np.cumsum(found.counts[:, :2].T, axis=1, out=self._ends[:, 1:])
        last_edges = self._ends[0, 1:] + np.arange(found.counts.shape[0])
        self.num_rows = found.edges[0, last_edges].reshape(-1, self._per_file)
        self._num_buffers = np.delete(np.diff(found.edges[1]), last_edges[:-1])
        starts, sizes = found.pages[2:].tolist()
        encodings = stored_encodings(memory, starts, sizes, "page")
        pages = list(zip(self._versions(), encodings, self._num_buffers.tolist(), strict=True))
        known = {page: number for number, page in enumerate(dict.fromkeys(pages))}
        specs = {file.container.version: file.specs for file in files}
        self._specs = [specs[version].find(*page) for version, *page in known]
        self._kinds = np.array([known[page] for page in pages], np.int64)
        self._blobs = are_blobs(memory, found.counts.tolist(), first.limits)
        # One tuple for all columns with the same pages, so that its identity tells the layout of a field.
        self._same: dict[bytes, tuple[PageSpec, ...]] = {}
        self._check()

    def _check(self) -> None:
        """Check that columns are within their file, share no bytes, and have at most the allowed rows."""
        nbytes, furthest = self._found.counts[:, 5:].T.reshape(2, -1, self._per_file)
        sizes = np.array([file.source.size for file in self.files], np.int64)
        most = np.maximum(sizes * 8, self.files[0].limits.rows_per_file)
        if (furthest > sizes[:, None]).any() or (self.num_rows > most[:, None]).any():
            raise FormatError("a column has more than its file, or more rows than the limit")
        parts = {id(numbers): [(number, "pages") for number in numbers] for numbers in self.numbers}
        for file, numbers, taken in zip(self.files, self.numbers, nbytes.tolist(), strict=True):
            file.ledger.charge_all(dict(zip(parts[id(numbers)], taken, strict=True)), file.source.size)

    def _versions(self) -> list[tuple[int, int]]:
        """The version of the file of each page, which determines what its encoding may be."""
        versions = [file.container.version for file in self.files]
        num_pages = self._found.counts[:, 0].reshape(-1, self._per_file).sum(axis=1).tolist()
        return [version for version, n in zip(versions, num_pages, strict=True) for _ in range(n)]

    @cached_property
    def _slices(self) -> tuple[list[int], list[int]]:
        page_ends, buffer_ends = self._ends.tolist()
        return page_ends, buffer_ends

    def specs(self, file: int, place: int) -> tuple[PageSpec, ...]:
        """Specs of the pages of a column, by the place of its number: one tuple for equal ones."""
        at, ends = file * self._per_file + place, self._slices[0]
        kinds = self._kinds[ends[at] : ends[at + 1]]
        key = kinds.tobytes()
        found = self._same.get(key)
        if found is None:
            found = self._same[key] = tuple([self._specs[kind] for kind in kinds.tolist()])
        return found

    def column(self, file: int, place: int) -> Column:
        """One column of a file."""
        at, number = file * self._per_file + place, self.numbers[file][place]
        page_ends, buffer_ends = self._slices
        row_starts, first_buffer = self._found.edges
        positions, sizes = self._found.buffers
        buffers = slice(buffer_ends[at], buffer_ends[at + 1])
        edges = slice(page_ends[at] + at, page_ends[at + 1] + at + 1)
        return Column(
            number,
            self._blobs[at],
            row_starts[edges],
            self.specs(file, place),
            first_buffer[edges],
            positions[buffers],
            sizes[buffers],
            int(self._found.counts[at, 5]),
            self.files[file].memory(number),
        )

    def of_one_kind(self, places: Sequence[int]) -> Iterator[int]:
        """Yield files until the pages of these columns have been of each kind that occurs.

        All, if some columns have several pages, are of blobs, or have nodes of 2.0, which only each file's rows tell apart.
        """
        counts = self._found.counts[:, 0].reshape(-1, self._per_file)[:, places]
        if not ((self._are_structural or len(places) == 1) and (counts == 1).all()) or any(self._blobs):
            yield from range(len(self.files))
            return
        starts = self._ends[0, :-1].reshape(-1, self._per_file)[:, places]
        known: set[tuple[int, ...]] = set()
        for file, kinds in enumerate(self._shown[starts].tolist()):
            if (key := tuple(kinds)) not in known:
                known.add(key)
                yield file

    @cached_property
    def _are_structural(self) -> bool:
        return all(map(is_structural, {type(spec): spec for spec in self._specs}.values()))

    @cached_property
    def _shown(self) -> Int64:
        """(num_pages,) int64: what tells how a field is laid out; of layouts of 2.1 and later that is the class alone."""
        if not self._are_structural:
            return self._kinds
        classes = {kind: number for number, kind in enumerate(dict.fromkeys(map(type, self._specs)))}
        return np.array([classes[type(spec)] for spec in self._specs], np.int64)[self._kinds]

    def joined(self, place: int) -> Column | None:
        """A column of all files as one; None if that cannot be."""
        files, places = np.divmod(np.arange(self._found.counts.shape[0]), self._per_file)
        num_pages, num_buffers = self._found.counts[:, :2].T
        mine = np.repeat(places == place, num_pages)
        buffers = np.repeat(places == place, num_buffers)
        positions, sizes = self._found.buffers
        return joined_column(
            self.numbers[0][place],
            self._found.pages[0][mine],
            tuple([self._specs[kind] for kind in self._kinds[mine].tolist()]),
            self._num_buffers[mine],
            positions[buffers],
            sizes[buffers],
            np.repeat(files, num_buffers)[buffers],
        )

    def file_bytes(self, places: Sequence[int]) -> Int64:
        """(num_files,) int64, bytes: size of these columns in each file."""
        found: Int64 = self._found.counts[:, 5].reshape(-1, self._per_file)[:, places].sum(axis=1)
        return found


def _usual_layout(
    file: FileColumns, field: Field, placed: Placed, pages: Sequence[Sequence[PageSpec]]
) -> Layout | None:
    """The layout of a field; None if it has an error, or strings whose bytes are in a column of no field."""
    numbers = placed.numbers.values()
    for number, specs in zip(numbers, pages, strict=True):
        if may_continue(specs) and number + 1 not in numbers:
            return None
    with suppress(LanceError):
        return layout_of(file.fields, field, placed.whole, placed.numbers, pages, file.container.version)
    return None


# -- a field of many files -----------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class JoinedField:
    """A field of several files as one of a single file, in which one file follows the other.

    Attributes
    ----------
    known : Prepared
        Positions in its columns also tell the number of the file (``encodings.several_files``).
    file_bytes : (num_files,) int64, bytes
        Size of its columns in each file.
    """

    known: Prepared
    file_bytes: Int64


def join_fields(files: Sequence[FileColumns], fields: Sequence[Field]) -> list[JoinedField | None]:
    """Join the columns of fields in several files.

    Returns
    -------
    list of JoinedField or None
        None: the field must be read file by file. Its metadata is not all held, large or damaged; it is not stored in the
        same way in all files; it has blobs, packed structs or strings of the first releases.
    """
    # Files with the same entry in the manifest share their columns.
    shared = {id(file.fields): file.fields for file in files}
    placed = [{key: columns.placed(field) for key, columns in shared.items()} for field in fields]
    alike = [_are_alike(list(mine.values())) for mine in placed]
    chosen = [mine for mine, is_alike in zip(placed, alike, strict=True) if is_alike]
    containers = [file.container for file in files]
    is_held = all(container.is_whole for container in containers)
    is_held = is_held and sum(container.held.memory.nbytes for container in containers) <= _MOST_JOINED
    if chosen and is_held and may_be_joined([file.source for file in files]):
        with suppress(LanceError):
            numbers = {
                key: [number for mine in chosen for number in mine[key].numbers.values()] for key in shared
            }
            parsed = _parsed(files, [numbers[id(file.fields)] for file in files])
            return [
                _joined_field(parsed, field, mine) if is_alike else None
                for field, mine, is_alike in zip(fields, placed, alike, strict=True)
            ]
    return [None] * len(fields)


def _are_alike(placed: Sequence[Placed]) -> bool:
    """Whether a field has the same nodes with a column in all files, none of which holds what is below it."""
    first = placed[0]
    return bool(first.numbers) and all(
        not one.packed and list(one.numbers) == list(first.numbers) and one.whole == first.whole
        for one in placed
    )


def _joined_field(parsed: _ParsedColumns, field: Field, placed: Mapping[int, Placed]) -> JoinedField | None:
    """A field as one of a single file; ``placed`` has its columns by the identity of the ``fields`` of a file."""
    files = parsed.files
    in_first = placed[id(files[0].fields)].numbers
    nodes = list(in_first)
    places = [parsed.numbers[0].index(number) for number in in_first.values()]
    first: Layout | None = None
    for n in parsed.of_one_kind(places):
        columns = {node: parsed.column(n, place) for node, place in zip(nodes, places, strict=True)}
        pages = [column.specs for column in columns.values()]
        mine = placed[id(files[n].fields)]
        layout = _usual_layout(files[n], field, mine, pages)
        first = layout if first is None else first
        if layout is None or first is None or layout.form is not first.form:
            return None
        if is_apart(mine.whole, columns):
            return None
    if first is None:
        return None
    file_rows = np.array([file.container.num_rows for file in files], np.int64)
    for node, factor in first.counted:
        rows = parsed.num_rows[:, places[nodes.index(node)]]
        if not ((rows == file_rows) | (rows == file_rows * factor)).all():
            return None
    joined = {node: parsed.joined(place) for node, place in zip(nodes, places, strict=True)}
    whole = {node: column for node, column in joined.items() if column is not None}
    if len(whole) < len(joined):
        return None
    return JoinedField(first.prepared(whole, files[0].specs), parsed.file_bytes(places))
