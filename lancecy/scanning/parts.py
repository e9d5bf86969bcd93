"""The data files of a fragment, opened.

The session's cache keeps the readers, so that a table opened again reuses the parsed metadata of its files. Where a
look at a file costs a request, the size of a 2.x file is taken from the manifest: the magic at the file's end
proves it; without the magic, the store is asked. Some releases wrote wrong sizes, mostly for 0.1 files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from lancecy.encodings.arrow.assemble import pruned
from lancecy.errors import FormatError, LanceError, LimitError, StoreError, TruncatedError
from lancecy.file.base import FileReader
from lancecy.file.open import opening
from lancecy.file.tail import TAIL_BYTES
from lancecy.records import dataclass
from lancecy.schema import Field
from lancecy.session import Session
from lancecy.store.base import Memory
from lancecy.store.fetch import Block, FileKey, RetainingFetch, file_key
from lancecy.store.reads import SourceFile, gather, run
from lancecy.table.manifest import DataFile, Fragment
from lancecy.table.snapshot import Snapshot

__all__ = ["Part", "fetcher", "open_parts", "open_several", "physical_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One data file of a fragment, opened.

    Attributes
    ----------
    source : SourceFile
    reader : FileReader
    ids : frozenset of int
        Ids of the fields it holds, without hidden and tombstoned ones, including those within packed structs.
    """

    source: SourceFile
    reader: FileReader
    ids: frozenset[int]

    def held(self, wanted: Field) -> Field | None:
        """The part of a field that the file holds, None if it holds nothing of it.

        Files of 2.0 hold structs that are not null even if they have none of their members.
        """
        return pruned(wanted, self.ids, keeps_structs=self.reader.version == (2, 0))


def open_parts(
    snapshot: Snapshot, fragment: Fragment, session: Session, dictionaries: SourceFile
) -> tuple[Part, ...]:
    """Open the data files together: one or two rounds of requests for all of them.

    Parameters
    ----------
    dictionaries : SourceFile
        The manifest file, for files of version 0.1.

    Raises
    ------
    FormatError, LimitError, UnsupportedError
        A file is damaged, or its version is not supported.
    DatasetNotFoundError
        A file is missing.
    """
    claimed = [snapshot.claimed_source(file) for file in fragment.files]
    if any(source is not None for source in claimed):
        pairs = zip(claimed, fragment.files, strict=True)
        try:
            seen = [snapshot.seen(file) if source is None else (source, None) for source, file in pairs]
            return _opened(snapshot, fragment.files, session, dictionaries, seen)
        except StoreError:
            raise  # all tries were made
        except LanceError:
            pass  # a size or a file is wrong: the sizes from the store decide
    seen = [snapshot.seen(file) for file in fragment.files]
    try:
        return _opened(snapshot, fragment.files, session, dictionaries, seen)
    except FormatError as error:
        raise _with_missing_bytes(error, [source for source, _ in seen], fragment) from error


def open_several(
    snapshot: Snapshot, fragments: Sequence[Fragment], session: Session, dictionaries: SourceFile
) -> list[tuple[Part, ...]] | None:
    """Open the data files of several fragments together: one or two rounds of requests for all of them.

    Parameters
    ----------
    dictionaries : SourceFile
        The manifest file, for files of version 0.1.

    Returns
    -------
    list of tuple of Part, or None
        None: the fragments must be opened one by one, because the size of a file is not known or a file cannot be
        opened.
    """
    files = [file for fragment in fragments for file in fragment.files]
    try:
        if snapshot.is_mapped:
            seen = [snapshot.seen(file) for file in files]
        else:
            claimed = [snapshot.claimed_source(file) for file in files]
            seen = [(source, None) for source in claimed if source is not None]
        if len(seen) < len(files):
            return None
        opened = iter(_opened(snapshot, files, session, dictionaries, seen))
    except StoreError:
        raise  # all tries were made
    except LanceError:
        return None
    return [tuple(islice(opened, len(fragment.files))) for fragment in fragments]


def _opened(
    snapshot: Snapshot,
    files: Sequence[DataFile],
    session: Session,
    dictionaries: SourceFile,
    seen: Sequence[tuple[SourceFile, Callable[[], Memory] | None]],
) -> tuple[Part, ...]:
    """Open the files; ``seen``: see ``Snapshot.seen``."""
    sources = [source for source, _ in seen]
    # One object instead of the key, whose limits take longer to hash.
    table: object = session.cache.get(("table of readers", *snapshot.key), object, 1024)
    keys = [
        ("reader", source.key, file.fields, file.column_indices, file.major, file.minor, table)
        for source, file in zip(sources, files, strict=True)
    ]
    readers: list[FileReader | None] = [session.cache.find(key) for key in keys]
    missing = [index for index, reader in enumerate(readers) if reader is None]
    if missing:
        openings = [
            opening(
                sources[index],
                field_ids=file.fields,
                column_indices=file.column_indices,
                fields=snapshot.schema.fields,
                major=file.major,
                minor=file.minor,
                limits=snapshot.limits,
                dictionary_source=dictionaries,
                cache=session.cache,
            )
            for index, file in enumerate(files)
            if readers[index] is None
        ]
        fetch = session.fetcher()
        for index in missing:
            source, whole = seen[index]
            if whole is not None:
                fetch.use(source, whole())
        opened = run(gather(openings), fetch)
        for index, reader in zip(missing, opened, strict=True):
            readers[index] = reader
            session.cache.keep(keys[index], reader, reader.nbytes)
            block = fetch.whole(sources[index])
            if block is not None:
                session.cache.keep(_bytes_key(sources[index]), block, block.arena.nbytes + 500)
    return tuple(
        Part(source, reader, reader.field_ids)
        for source, reader in zip(sources, readers, strict=True)
        if reader is not None
    )


def _bytes_key(source: SourceFile) -> tuple[object, ...]:
    return ("bytes of a file", source.key)


def fetcher(parts: Iterable[Part], session: Session) -> RetainingFetch:
    """A ``fetch`` for columns of files; small files that were read whole when they were opened cost no request.

    Parameters
    ----------
    parts : iterable of Part
    session : Session
    """
    known: dict[FileKey, Block] = {}
    for part in parts:
        source = part.source
        if source.size <= TAIL_BYTES and not source.store.traits.is_mapped:
            block = session.cache.find(_bytes_key(source))
            if block is not None:
                known[file_key(source)] = block
    return session.fetcher(known=known)


def _with_missing_bytes(error: FormatError, sources: Sequence[SourceFile], fragment: Fragment) -> FormatError:
    """The error for a file that is shorter than the manifest records; any other error itself."""
    for source, file in zip(sources, fragment.files, strict=True):
        if file.size and source.size < file.size and not isinstance(error, LimitError):
            found = TruncatedError(
                f"the file has {source.size} of the {file.size} bytes that the manifest records: the last "
                f"{file.size - source.size} are missing; copy it again, or restore a version without it",
                path=source.path,
            )
            return found.within(source.path)  # type: ignore[return-value]
    return error


def physical_rows(fragment: Fragment, parts: Sequence[Part]) -> int:
    """Rows of a fragment, deleted ones included.

    Raises
    ------
    FormatError
        Files disagree with each other or with the manifest.
    """
    # One file for each number, as a fragment may have hundreds.
    paths = {part.reader.num_rows: part.source.path for part in parts}
    if len(paths) > 1:
        held = ", ".join(f"{path} holds {rows}" for rows, path in sorted(paths.items()))
        raise FormatError(f"data files hold different numbers of rows: {held}")
    if not paths:
        return fragment.physical_rows or 0
    [(rows, path)] = paths.items()
    if fragment.physical_rows is not None and fragment.physical_rows != rows:
        raise FormatError(
            f"the manifest says {fragment.physical_rows} rows, the data files hold {rows}, {path} for one"
        )
    return rows
