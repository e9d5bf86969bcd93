"""The dataset: a table at one version, with methods to read, inspect and change it.

Names and meanings follow pylance where it has them. Methods delegate: they build a request for the ``scan`` package;
the methods that change the table are in ``changes``.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from lancecy import blobs
from lancecy.api.binary_scans import (
    BinaryScanner,
    blob_columns,
    inner_request,
    with_null_bytes,
)
from lancecy.api.blob_frames import frame_with_blobs
from lancecy.api.branches import Branching
from lancecy.api.changes import Changes
from lancecy.api.clones import Clones
from lancecy.api.diff import TableDiff, compare
from lancecy.api.history import History
from lancecy.api.named_tables import NAMESPACE_ALIASES, with_place
from lancecy.api.pylance_names import DATASET_NAMES, FRAGMENT_NAMES, OTHER_NAMES, CallableDict, RefusedNames
from lancecy.api.refs import Tags
from lancecy.api.scanners import BlobMode, Scanner
from lancecy.api.searches import NearestScanner
from lancecy.changes.fragment_columns import FragmentColumns
from lancecy.changes.fragments import FragmentChanges
from lancecy.changes.lance_schema import LanceSchema
from lancecy.changes.options import UNSUPPORTED_WRITES
from lancecy.errors import UnsupportedError, with_short_tracebacks
from lancecy.expr.build import Filter
from lancecy.inspection import display
from lancecy.inspection.bases import BaseStatus, base_statuses
from lancecy.inspection.sizes import DatasetStats, Layout, layout
from lancecy.inspection.verification import Verification, raise_if_damaged, verify
from lancecy.interop.delayed import block_bytes, delayed_tables
from lancecy.keyword_options import checked_arguments, shared_options, whole_number
from lancecy.limits import Limits
from lancecy.progress import Progress
from lancecy.scanning import threads
from lancecy.scanning.context import ScanContext
from lancecy.scanning.nearest import make_nearest
from lancecy.scanning.options import (
    SCAN_DEFAULTS,
    UNSUPPORTED_SCANS,
    WITHOUT_SCAN_OPTIONS,
    HasFragmentId,
    ScanOptions,
    check_blob_handling,
    checked_scan_options,
)
from lancecy.scanning.pandas_metadata import (
    PANDAS_DEFAULTS,
    DtypeBackend,
    PandasOptions,
    check_dtype_backend,
)
from lancecy.scanning.request import Columns, ScanRequest, default_batch_size, make_request, positive
from lancecy.scanning.take import Indices, as_row_numbers, take_row_ids, take_rows
from lancecy.scanning.task import ScanSpec
from lancecy.session import Session, default
from lancecy.store.committing import CommitLock, with_lock
from lancecy.store.key_values.ddb_uri import shown_uri
from lancecy.table.bases import canonical_base
from lancecy.table.location import TableLocation
from lancecy.table.manifest import BasePath, DataFile, Fragment
from lancecy.table.refs.reference import Reference
from lancecy.table.replicas import Replicas, check_replicas
from lancecy.table.snapshot import Snapshot, committed_snapshot, load_reference, load_snapshot
from lancecy.table.versions import ManifestLocation
from lancecy.table.versions.locate import Version, list_versions
from lancecy.table.wire.manifest import Written
from lancecy.write.metadata import FragmentMetadata

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow.dataset as pads
    from dask.delayed import Delayed

    from lancecy.interop.sql import SqlQueryBuilder

__all__ = [
    "OPEN_DEFAULTS",
    "Dataset",
    "FragmentSession",
    "LanceDataset",
    "LanceFragment",
    "OpenOptions",
    "TrustOptions",
    "dataset",
    "opened",
    "opening",
]


class FrameOptions(ScanOptions, PandasOptions, total=False):
    """Options of a scan, and of making a frame of its rows."""


scanning = shared_options(ScanOptions, SCAN_DEFAULTS, UNSUPPORTED_SCANS)
_framing = shared_options(FrameOptions, {**SCAN_DEFAULTS, **PANDAS_DEFAULTS}, UNSUPPORTED_SCANS)
_HINTS = (
    "block_size",
    "index_cache_size",
    "index_cache_size_bytes",
    "metadata_cache_size_bytes",
    "read_params",
)
_UNSUPPORTED_OPENS = {"base_store_params": UNSUPPORTED_WRITES["base_store_params"]}


@checked_arguments({**_UNSUPPORTED_OPENS, **WITHOUT_SCAN_OPTIONS}, NAMESPACE_ALIASES, _HINTS)
def dataset(
    uri: str | os.PathLike[str] | None = None,
    version: Reference = None,
    asof: date | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    *,
    untrusted: bool = False,
    allowed_bases: Sequence[str] | None = None,
    limits: Limits | None = None,
    session: Session | None = None,
    recover: bool = False,
    default_scan_options: Mapping[str, Any] | None = None,
    commit_lock: CommitLock | None = None,
    replicas: Replicas | None = None,
    namespace: Any = None,
    table_id: Sequence[str] | None = None,
) -> Dataset:
    """Open a Lance dataset.

    Parameters
    ----------
    uri : str or path, optional
        A local path, or any URL fsspec knows (``s3://…``, ``gs://…``, ``memory://…``).
    version : int, str, or (str or None, int or None), optional
        Open this version instead of the latest: a number, the name of a tag, or a branch and a version. None or
        "main" is the main table, and a branch without a version its latest one.
    asof : datetime, date or ISO 8601 text, optional
        Open the latest version made at or before this time (local time if it has no zone). Ignored with ``version``. Both
        as in pylance.
    storage_options : mapping, optional
        As in Dask and pandas, for the root and for base paths in its own service, such as other buckets at the same
        endpoint; ``base_<id>.<key>`` gives an option for one base path only. ``manifest_store`` names the external
        manifest store of the table: the URL of an SQL database, or an object such as
        :class:`lancecy.SqlManifestStore`.
    untrusted : bool
        Do not trust the table's author: no memory maps, no symbolic links, no base paths outside the
        root unless ``allowed_bases`` names them.
    allowed_bases : sequence of str, optional
        Prefixes of URIs that base paths of this table may point to, besides those of the root's own service.
    limits : Limits, optional
        Limits on values that files state.
    session : Session, optional
        Caches and threads to use; the process default otherwise.
    recover : bool
        If the manifest of the newest version is damaged, open the newest sound version instead, with a warning. Then
        ``restore()`` makes this version the newest one again, and so does :func:`lancecy.repair` without opening it.
    default_scan_options : mapping of str to object, optional
        Arguments of :meth:`Dataset.scanner` for every scan of this dataset that does not give its own, as in pylance.
        ``schema`` is then that of such a scan. Takes, counts, fragments and other engines (:meth:`Dataset.sql`,
        :meth:`Dataset.to_pyarrow_dataset`, :meth:`Dataset.to_polars_lazy`) do not use them.
    commit_lock : function, optional
        As in pylance: takes the version that is about to be published and returns a context manager, under which its
        manifest is written. All writers of the table must give a lock that excludes the others. Raise
        ``lancecy.commit.CommitConflictError`` in it, or pylance's, if another writer has the
        version: the commit is then tried again.
    replicas : mapping of str to sequence of str, optional
        Places with copies of the files of bases, such as ``{"us-east": ["s3://near/data", "s3://far/data"]}``: data and
        deletion files are read from the first that answers, the base's own place last unless it is in the list. The
        key is the name, id or path of a base, or the table's own URI. Those of the configuration otherwise.
    namespace : lance_namespace.LanceNamespace, optional
        Where ``table_id`` is looked up, in place of ``uri``; as pylance's ``namespace_client``.
    table_id : sequence of str, optional
        Names of the namespaces and of the table, such as ``["sales", "orders"]``.

    Returns
    -------
    Dataset

    Notes
    -----
    pylance's ``block_size``, ``read_params`` and sizes of caches are taken and have no effect: the storage tells how ranges
    are merged, and ``session=lancecy.Session(cache_bytes=…)`` has the size of the cache.

    Raises
    ------
    ValueError
        ``default_scan_options`` names no option of a scan.
    DatasetNotFoundError
        There is no dataset at ``uri``.
    NotFoundError
        No such version, tag or branch, or none as old as ``asof``; or the version of the tag was removed. Or ``replicas``
        names no base of the table.
    FormatError
        The metadata is damaged, exceeds the limits, or points to a forbidden place.
    UnsupportedError
        The table needs a feature that this release cannot read.
    StoreError
        The storage refused.

    Examples
    --------
    >>> import lancecy
    >>> ds = lancecy.dataset("example.lance")
    >>> ds.count_rows()
    1000
    """
    defaults = checked_scan_options(default_scan_options)
    active = session or default()
    place, given = with_place(uri, namespace, table_id, {"storage_options": storage_options})
    location = TableLocation.of(
        place,
        with_lock(given["storage_options"], commit_lock),
        untrusted,
        allowed_bases,
        limits or active.limits,
        replicas,
    )
    snapshot = load_snapshot(location, version, asof, active, recover)
    check_replicas(location.replicas, snapshot.bases.known_names)
    return Dataset(snapshot, defaults)


class TrustOptions(TypedDict, total=False):
    """Options of trust in a table, and of the places it is read from; :func:`dataset` describes each."""

    untrusted: bool
    allowed_bases: Sequence[str] | None
    limits: Limits | None
    replicas: Replicas | None


class OpenOptions(TrustOptions, total=False):
    """Options of opening a table; :func:`dataset` describes each."""

    version: Reference
    asof: date | str | None
    storage_options: Mapping[str, Any] | None


OPEN_DEFAULTS: dict[str, Any] = {**dict.fromkeys(OpenOptions.__annotations__), "untrusted": False}
"""Default of each option."""
opening = shared_options(OpenOptions, OPEN_DEFAULTS, WITHOUT_SCAN_OPTIONS)


def opened(uri: str | os.PathLike[str] | Dataset, **options: Unpack[OpenOptions]) -> Dataset:
    """The dataset for an argument of an entry point, opened if it is a URI.

    Parameters
    ----------
    uri : str, path or Dataset
    **options
        As for :func:`dataset`.

    Raises
    ------
    ValueError
        An option is given together with a Dataset.
    LanceError
        The table cannot be opened.

    Examples
    --------
    >>> opened("example.lance").version
    2
    """
    if not isinstance(uri, Dataset):
        return dataset(uri, **options)
    if any(value != OPEN_DEFAULTS[name] for name, value in options.items()):
        raise ValueError(
            "a Dataset is open already: give version, options and trust to lancecy.dataset instead"
        )
    return uri


def _described(version: Version) -> dict[str, Any]:
    return {
        "version": version.version,
        "timestamp": version.timestamp,
        "metadata": dict(version.summary),
    }


def _fragment_ids(fragments: Sequence[HasFragmentId | int] | None) -> list[int] | None:
    if fragments is None:
        return None
    return [
        fragment.metadata.id
        if isinstance(fragment, LanceFragment)
        else whole_number("a fragment", getattr(fragment, "fragment_id", fragment))
        for fragment in fragments
    ]


class Scans(ABC):
    """Methods of a dataset and of a fragment that make one scan and return its rows."""

    @abstractmethod
    def scanner(
        self,
        columns: Columns = None,
        filter: Filter = None,
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> Scanner:
        """A scan; arguments as for :meth:`Dataset.scanner`."""

    @scanning
    def to_table(
        self,
        columns: Columns = None,
        filter: Filter = None,
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """The rows as one Arrow table; arguments as for :meth:`Dataset.scanner`."""
        return self.scanner(columns, filter, limit, offset, **options).to_table()

    @scanning
    def to_batches(
        self,
        columns: Columns = None,
        filter: Filter = None,
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> Iterator[pa.RecordBatch]:
        """The rows as a stream of record batches in bounded memory; arguments as for :meth:`Dataset.scanner`."""
        return self.scanner(columns, filter, limit, offset, **options).to_batches()

    @_framing
    def to_pandas(
        self,
        columns: Columns = None,
        filter: Filter = None,
        limit: int | None = None,
        offset: int | None = None,
        *,
        dtype_backend: DtypeBackend = "pyarrow",
        blob_mode: BlobMode | None = None,
        **options: Unpack[FrameOptions],
    ) -> pd.DataFrame:
        """The rows as a pandas DataFrame; other arguments as for :meth:`Dataset.scanner`.

        Restores the pandas index recorded in the schema metadata, if its columns are present.

        Parameters
        ----------
        dtype_backend : "pyarrow", "numpy_nullable" or "numpy"
            The dtypes, as in pandas: Arrow's, which hold every type and null exactly; pandas' own for numbers,
            booleans and text; or NumPy's, as in pylance, where integers with nulls become floats, and vectors and
            lists arrays in a column of objects.
        blob_mode : "lazy", "bytes" or "descriptions", optional
            What blob columns, also in structs, have: files as of :meth:`Dataset.take_blobs`, bytes, or descriptors. By
            default ``blob_handling`` says it; if that is not given either, files, and descriptors in lists and with
            ``include_deleted_rows``.
        **options
            Also those of ``pyarrow.Table.to_pandas``, such as ``types_mapper`` and ``self_destruct``. With any of these, the
            dtypes are those of pyarrow and its ``types_mapper``, whatever ``dtype_backend`` is, as in pylance.

        Notes
        -----
        pandas cannot parse the names of Arrow's nested and dictionary dtypes, which ``to_parquet`` records. Read
        such a file with ``pandas.read_parquet(path, dtype_backend="pyarrow")``, or write it from a frame of one of
        the other two kinds.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.dataset("example.lance")
        >>> [str(ds.to_pandas(["id"], dtype_backend=kind)["id"].dtype) for kind in ("pyarrow", "numpy")]
        ['int64[pyarrow]', 'int64']
        """
        check_dtype_backend(dtype_backend)
        given: Any = {name: value for name, value in options.items() if name in PANDAS_DEFAULTS}
        scanned: Any = {name: value for name, value in options.items() if name not in PANDAS_DEFAULTS}
        scanner = self.scanner(columns, filter, limit, offset, **scanned)
        return scanner.to_pandas(dtype_backend, blob_mode=blob_mode, **given)

    @scanning
    def to_polars(
        self,
        columns: Columns = None,
        filter: Filter = None,
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> pl.DataFrame:
        """The rows as a Polars DataFrame; arguments as for :meth:`Dataset.scanner`.

        Raises
        ------
        ImportError
            Polars is not installed (``pip install 'lancecy[polars]'``).
        """
        return self.scanner(columns, filter, limit, offset, **options).to_polars()

    @scanning
    def head(
        self,
        num_rows: int = 5,
        columns: Columns = None,
        filter: Filter = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> pa.Table:
        """The first rows; further arguments as for :meth:`Dataset.scanner`."""
        return self.scanner(columns, filter, num_rows, offset, **options).to_table()


def _rescanned(ds: Dataset, given: Mapping[str, Any], others: Mapping[str, Any]) -> Scanner:
    """The scan of these options, of which some are others."""
    return ds._scan({**given, **others})


@with_short_tracebacks
class Dataset(Scans, Changes, History, Branching, Clones, RefusedNames):
    """A table at one version.

    Made by :func:`lancecy.dataset`. Another version is another dataset (:meth:`checkout_version`). Methods that change
    the table (:meth:`append`, :meth:`delete`, …) move this dataset to the version they make.
    Pickles as its URI, version and options without secrets.
    """

    _refused_names = DATASET_NAMES
    _other_names = OTHER_NAMES

    def __init__(self, snapshot: Snapshot, default_scan_options: Mapping[str, Any] | None = None) -> None:
        if isinstance(snapshot, str | os.PathLike):
            raise TypeError(
                "lancecy.dataset(uri) opens a table, with the arguments of pylance's LanceDataset"
            )
        self._current = _Current(snapshot)
        self._scan_defaults = default_scan_options or {}
        self._session = snapshot.session

    @property
    def _snapshot(self) -> Snapshot:  # type: ignore[override]
        return self._current.snapshot

    @property
    def _context(self) -> ScanContext:
        return self._current.context

    def _unmoved(self) -> Dataset:
        """This version, as a dataset of its own: for what outlives this call, which a change of this dataset must not move."""
        fixed = Dataset(self._snapshot)
        fixed._current = self._current
        return fixed

    # -- what it is -----------------------------------------------------------

    @property
    def uri(self) -> str:
        """URI of the table, without secrets."""
        return shown_uri(self._snapshot.uri)

    @property
    def version(self) -> int:
        """Number of this version."""
        return self._snapshot.version

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, metadata included; of a scan, if there are ``default_scan_options``."""
        return self.scanner().schema if self._scan_defaults else self._snapshot.schema.arrow

    @property
    def lance_schema(self) -> Any:
        """The schema in the format's terms: fields with ids (:class:`lancecy.schema.LanceSchema`).

        Its fields, and their names, ids and children, are values, and also methods, as in pylance.
        """
        return self._current.lance_schema

    @property
    def max_field_id(self) -> int:
        """The largest field id of the columns and of the data files."""
        files = (file for fragment in self._snapshot.fragments for file in fragment.files)
        schema = (node.id for top in self._snapshot.schema.fields for node in top.walk())
        return max(chain(schema, (number for file in files for number in file.fields)), default=-1)

    @property
    def data_storage_version(self) -> str:
        """Version of the table's data files, such as ``"0.1"``."""
        return self._snapshot.manifest.data_version or "0.1"

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""
        return self._snapshot.manifest.has_stable_row_ids

    @property
    def metadata(self) -> dict[str, str]:
        """Free-form metadata of the table."""
        return dict(self._snapshot.manifest.table_metadata)

    @property
    def schema_metadata(self) -> dict[str, str]:
        """Metadata of the Arrow schema."""
        found = self.schema.metadata or {}
        # The format does not say that values are text.
        return {
            name.decode(errors="replace"): value.decode(errors="replace") for name, value in found.items()
        }

    @property
    def config(self) -> CallableDict[str, str]:
        """Configuration of the table; also as a call, as in pylance."""
        return CallableDict(self._snapshot.manifest.config)

    @property
    def base_paths(self) -> CallableDict[int, Any]:
        """Base paths by id (:class:`lancecy.table.manifest.BasePath`); also as a call, as in pylance."""
        return CallableDict(self._snapshot.manifest.base_paths)

    @property
    def stats(self) -> DatasetStats:
        """Statistics from metadata alone."""
        return DatasetStats(self._context)

    # -- versions -------------------------------------------------------------

    def versions(self) -> list[dict[str, Any]]:
        """All versions, oldest first: ``{"version": int, "timestamp": datetime, "metadata": dict}``.

        Reads one manifest per version, several at a time from a remote store.
        """
        store = self._snapshot.store
        found = list_versions(store, self._session, self._snapshot.versions)
        if store.traits.is_mapped:
            return [_described(version) for version in found]
        return self._session.map_requests(_described, found)

    def get_version(self) -> dict[str, Any]:
        """This version as :meth:`versions` describes it."""
        snapshot = self._snapshot
        found = Version(snapshot.version, snapshot.manifest_file, snapshot.store, snapshot.limits)
        return _described(found)

    def version_refs(self) -> list[dict[str, int]]:
        """Numbers of all versions, oldest first, as ``{"version": int}``; reads no manifest, unlike :meth:`versions`."""
        found = list_versions(self._snapshot.store, self._session, self._snapshot.versions)
        return [{"version": each.version} for each in found]

    @property
    def latest_version(self) -> int:
        """Number of the newest version now."""
        return self._snapshot.latest_version()

    def checkout_version(self, version: Reference) -> Dataset:
        """The same table at another version.

        Parameters
        ----------
        version : int, str, or (str or None, int or None)
            A version of the current branch, the name of a tag, or a branch and a version: None or "main" is the main
            table, and a branch without a version is opened at its latest one.

        Raises
        ------
        NotFoundError
            There is no such version, tag or branch.
        TypeError, ValueError
            ``version`` is none of these.

        Examples
        --------
        >>> import lancecy
        >>> lancecy.dataset("example.lance").checkout_version(("main", 1)).version
        1
        """
        return self._reopen(version)

    @property
    def tags(self) -> Tags:
        """Names for versions: list, create, move and delete them."""
        # No local function, so that tags pickle as the dataset does.
        return Tags(partial(getattr, self, "_snapshot"))

    def checkout_latest(self) -> Dataset:
        """The same table, or branch, at its newest version."""
        return self._reopen(None)

    def _reopen(self, version: Reference) -> Dataset:
        branch = self._snapshot.manifest.branch
        return Dataset(load_reference(self.location, branch, version, self._session), self._scan_defaults)

    def _opened(self, snapshot: Snapshot) -> Self:
        return type(self)(snapshot, self._scan_defaults)

    def _made_of(self, snapshot: Snapshot) -> Dataset:
        return Dataset(snapshot)

    @property
    def location(self) -> TableLocation:
        """The address of the table: URI, storage options, and trust."""
        return self._snapshot.location

    def with_credentials(self, embedded: bool = True) -> Dataset:
        """The same dataset, whose pickle contains the storage options as given, secrets included, or does not.

        Parameters
        ----------
        embedded : bool
        """
        location = self.location.with_credentials(embedded)
        return Dataset(load_snapshot(location, self.version, session=self._session), self._scan_defaults)

    def _move(
        self,
        version: int | None,
        bases: Iterable[BasePath] = (),
        written: tuple[ManifestLocation, Written] | None = None,
    ) -> None:
        location = self.location.allowing(map(canonical_base, bases))
        if version is None:
            self._current = _Current(load_snapshot(location, session=self._session))
        elif written is None:
            self._current = _Current(committed_snapshot(location, version, self._session))
        else:
            self._current = _Current(
                None, partial(committed_snapshot, location, version, self._session, written)
            )

    # -- scanning -------------------------------------------------------------

    @scanning
    def scanner(
        self,
        columns: Columns = None,
        filter: Filter = None,
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> Scanner:
        """Describe a scan without running it.

        Parameters
        ----------
        columns : list of names, mapping or None
            Names, nested ones with dots (``"s.a"``), and ``"*"`` for every column; or output names mapped to SQL
            text or expressions (``{"y": "x * 2"}``); None for all.
        filter : str, pyarrow.compute.Expression, lancecy.Expr or None
            Returns the rows for which it is true (SQL rules: null is not true).
        limit, offset : int, optional
            Apply to the filtered rows, in table order (or in the order of ``order_by``).
        batch_size : int, optional
            Maximum rows of a streamed batch. The environment variable ``LANCE_DEFAULT_BATCH_SIZE`` gives the default.
        batch_size_bytes : int, optional
            Maximum bytes of a streamed batch.
        strict_batch_size : bool
            Batches of a stream have exactly ``batch_size`` rows, the last one fewer. Not with ``batch_size_bytes``.
        fragments : sequence of LanceFragment or int, optional
            Read only these, in table order.
        scan_in_order : bool
            Keep table order. False allows batches and tasks in any order, so that a table over several bases is read
            from all bases in turn.
        order_by : sequence of names or (name, "ascending" | "descending"), optional
            Sort the whole result.
        with_row_id, with_row_address : bool
            Append ``_rowid``, ``_rowaddr``. These, ``_rowoffset`` (the number of the row in :meth:`take`) and the
            versions ``_row_created_at_version`` and ``_row_last_updated_at_version`` (all uint64) may also be named in
            columns, filters and ``order_by``.
        include_deleted_rows : bool
            Return deleted rows too while the files still have them, with a ``_rowid`` and a ``_rowaddr`` that are null; needs
            ``with_row_id``. Fragments of which every row was deleted are gone. Limits count these rows.
        use_stats : bool
            Skip pages whose statistics prove that nothing matches.
        memory_bytes : int, optional
            Budget of a streamed scan (256 MiB), in bytes of decoded rows. Compressed texts whose pages do not tell their
            size may take more in the first two windows.
        blob_handling : "blobs_descriptions", "all_binary" or "all_descriptions", optional
            With "all_binary", blob columns are large binary: the bytes are read of the rows that are returned, and batches
            end after 64 MiB of them. Filters and computed columns still see descriptors. The others return descriptors,
            whose bytes :meth:`take_blobs` and :meth:`read_blobs` read; other binary columns are bytes, as in pylance.
        nearest : mapping, optional
            Search: return the rows whose vectors are nearest to a query, exactly, by comparing every row. Entries:
            ``column``; ``q``, a vector, or a list of vectors, for which the result has a first column
            ``query_index``; ``k`` (10); ``metric`` or ``distance_type``, "l2" (squared), "cosine" or "dot" for
            vectors of floats, "hamming" for those of uint8; ``distance_range``, a pair ``(low, high)`` of numbers or
            None: ``low <= distance < high``. Entries of pylance that steer an index are checked and ignored. The
            result has a column ``_distance`` (float32) and comes by query, distance and row id, or as ``order_by``
            says; null vectors and distances that are NaN are left out.
        prefilter : bool
            In a search the filter chooses the rows that are compared. By default it is applied to the k rows found,
            and may name ``_distance``.
        disable_scoring_autoprojection : bool
            A search returns ``_distance`` only if the columns name it.
        use_scalar_index : bool, optional
            Use indices on scalar columns for the filter (the default). An index that cannot be read is left out with a
            warning; with True it raises. False uses none.
        read_dictionary : list of names or bool
            Return these text columns as Arrow dictionaries with int32 codes; True means those that the files store with
            dictionaries, by the first fragment. Pages of 2.1 and later that store a dictionary are not expanded; other
            pages are encoded. Members of structs and computed columns stay texts.
        batch_readahead, fragment_readahead, io_buffer_size, late_materialization, fast_search : \
        optional
            Accepted for compatibility with pylance, and ignored: they change no row of a scan. A search refuses
            ``fast_search=True``, since it uses no index.

        Returns
        -------
        Scanner

        Raises
        ------
        ColumnNotFoundError, ExpressionError
            The columns or the filter do not fit the schema.
        ValueError, TypeError
            Invalid arguments.
        UnsupportedError
            An argument of pylance that lancecy does not have, such as ``full_text_query``; a search in multivectors.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.dataset("example.lance")
        >>> query = ds.take([7], columns=["vec"])["vec"][0]
        >>> found = ds.to_table(columns=["id"], nearest={"column": "vec", "q": query, "k": 3})
        >>> found.column_names, found["id"][0].as_py(), found["_distance"][0].as_py()
        (['id', '_distance'], 7, 0.0)
        """
        given = {"columns": columns, "filter": filter, "limit": limit, "offset": offset, **options}
        asked = {**self._scan_defaults, **{name: v for name, v in given.items() if v is not None}}
        return self._unmoved()._scan(asked)

    def _scan(self, given: Mapping[str, Any]) -> Scanner:
        """A scan with these options and no defaults of this dataset."""
        scanner = self._made(given)
        has_handling = given.get("blob_handling") is not None
        scanner._frame = partial(frame_with_blobs, partial(_rescanned, self, given), has_handling)
        return scanner

    def _made(self, given: Mapping[str, Any]) -> Scanner:
        asked = {**SCAN_DEFAULTS, **{name: value for name, value in given.items() if value is not None}}
        is_binary = check_blob_handling(asked["blob_handling"])
        if asked["strict_batch_size"] and asked["batch_size_bytes"] is not None:
            raise ValueError(
                "batches cannot have exactly batch_size rows (strict_batch_size=True) and at most batch_size_bytes: leave "
                "one of them out"
            )
        request = make_request(
            self._snapshot.schema.arrow,
            asked.get("columns"),
            asked.get("filter"),
            asked.get("limit"),
            asked.get("offset"),
            default_batch_size() if asked["batch_size"] is None else asked["batch_size"],
            asked["batch_size_bytes"],
            asked["with_row_address"],
            asked["with_row_id"],
            _fragment_ids(asked["fragments"]),
            asked["scan_in_order"],
            asked["use_stats"],
            asked["use_scalar_index"],
            self._dictionary_names(asked["read_dictionary"]),
            bool(asked["include_deleted_rows"]),
        )
        if not is_binary:
            return self._described(asked, request)
        request = with_null_bytes(request, self._snapshot.schema)
        columns = blob_columns(self._context, request)
        if not columns:
            return self._described(asked, request)
        scanner = self._described(asked, inner_request(request))
        return BinaryScanner(self._context, scanner, request, columns, asked["strict_batch_size"])

    def _described(self, asked: Mapping[str, Any], request: ScanRequest) -> Scanner:
        """A scan that returns descriptors of blobs."""
        memory = positive("memory_bytes", asked["memory_bytes"]) or threads.DEFAULT_BUDGET
        if asked["nearest"] is not None:
            return self._searching(asked, request, memory)
        context = self._context.asked_by(request)
        return Scanner(
            context, self.scan_spec, request, asked["order_by"], memory, asked["strict_batch_size"]
        )

    def _dictionary_names(self, wanted: Sequence[str] | bool | None) -> Sequence[str]:
        """Names of the columns to return as dictionaries."""
        if isinstance(wanted, bool):
            return self._context.dictionary_texts if wanted else ()
        if isinstance(wanted, str):
            raise TypeError(f"read_dictionary must be a list of names or a boolean, not {wanted!r}")
        return wanted or ()

    def _searching(self, asked: Mapping[str, Any], request: ScanRequest, memory: int) -> NearestScanner:
        """A scan with ``nearest``."""
        if asked["fast_search"]:
            raise UnsupportedError(
                "fast_search=True is not supported: lancecy uses no vector index, so a search compares every row",
                feature="fast_search",
            )
        if request.with_deleted:
            raise UnsupportedError(
                "include_deleted_rows=True is not supported with nearest: a search returns living rows",
                feature="deleted rows of a search",
            )
        schema = self._snapshot.schema.scanned
        search = make_nearest(asked["nearest"], schema, bool(asked["prefilter"]))
        add_distance = not asked["disable_scoring_autoprojection"]
        sorting, strict = asked["order_by"], asked["strict_batch_size"]
        return NearestScanner(
            self._context, self.scan_spec, request, search, add_distance, sorting, memory, strict
        )

    @scanning
    def to_delayed(
        self,
        columns: Columns = None,
        filter: Filter = None,
        limit: int | None = None,
        offset: int | None = None,
        *,
        blocksize: int | str | None = "128MiB",
        embed_credentials: bool = False,
        **options: Unpack[ScanOptions],
    ) -> list[Delayed]:
        """The rows as Dask tasks, each returning a :class:`pyarrow.Table`.

        Other arguments as for :meth:`scanner`.

        Parameters
        ----------
        blocksize : int or text such as "128MiB", or None
            Bytes of the selected columns per table; None makes one table per fragment.
        embed_credentials : bool
            Put the secrets in the storage options into the graph.

        Returns
        -------
        list of dask.delayed.Delayed
            In table order, for ``dask.bag.from_delayed`` and custom graphs. Dask starts independent tasks in the order
            of their keys, so that concurrent tasks read from different bases; ``scan_in_order=False`` orders the list
            that way as well.

        Examples
        --------
        >>> import dask, lancecy
        >>> tables = lancecy.dataset("example.lance").to_delayed(columns=["id"], filter="k < 10")
        >>> sum(table.num_rows for table in dask.compute(*tables))
        100
        """
        scanner = self.scanner(columns, filter, limit, offset, **options)
        plan = scanner.plan(block_bytes(blocksize), embed_credentials=embed_credentials)
        turns = self._context.interleaved([task.units[0].fragment for task in plan.tasks])
        return delayed_tables(plan, turns)

    @checked_arguments(WITHOUT_SCAN_OPTIONS)
    def count_rows(self, filter: Filter = None) -> int:
        """The number of rows, or of rows that pass the filter.

        Without a filter it comes from metadata.
        """
        if filter is None:
            known = self._snapshot.manifest.num_rows
            return int(self._context.row_starts()[-1]) if known is None else known
        return self._scan({"columns": [], "filter": filter}).count_rows()

    @checked_arguments(WITHOUT_SCAN_OPTIONS)
    def take(self, indices: Indices, columns: Columns = None) -> pa.Table:
        """Rows by number, in the order given.

        Parameters
        ----------
        indices : (n,) integers
            Numbers of live rows in table order, ``0 .. count_rows() - 1``; duplicates allowed.
        columns : as for :meth:`scanner`

        Raises
        ------
        IndexError
            A row number is negative or too large.
        """
        request = make_request(self._snapshot.schema.arrow, columns)
        return take_rows(self._context, self._context.projection(request), indices)

    def take_rows(self, row_ids: Any, columns: Columns = None) -> pa.Table:
        """Rows by row id, in the order given; deleted rows and unknown ids are left out.

        Without stable row ids (:attr:`has_stable_row_ids`) the id of a row is its address: fragment id << 32 | offset.

        Parameters
        ----------
        row_ids : (n,) integers
            Values of ``_rowid``, 0 .. 2**64 - 1; duplicates allowed.
        columns : as for :meth:`scanner`

        Raises
        ------
        IndexError
            An id is out of range; without stable row ids, also an address whose fragment or row never existed.
        TypeError
            Not integers.
        FormatError
            The table's row ids are damaged, for example two live rows have the same id.

        Examples
        --------
        >>> import lancecy
        >>> lancecy.dataset("example.lance").take_rows([7, 3], columns=["id"])["id"].to_pylist()
        [7, 3]
        """
        request = make_request(self._snapshot.schema.arrow, columns)
        return take_row_ids(self._context, self._context.projection(request), row_ids)

    def take_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        buffer_size: int = blobs.BUFFER_SIZE,
    ) -> list[blobs.BlobFile | None]:
        """The blobs of some rows as files, which fetch bytes when they are read.

        Parameters
        ----------
        blob_column : str
            A blob column, or the path of one within structs.
        ids, addresses, indices : (n,) integers
            Exactly one of them: row ids, row addresses, or numbers of live rows as for :meth:`take`.
        buffer_size : int, bytes
            Fetched ahead of a sequential reader where files are not memory-mapped.

        Returns
        -------
        list
            In the order of the rows; None for a null, an empty file for an empty blob.

        Raises
        ------
        ValueError
            Not exactly one of the three row arguments is given, or the column is not a blob column.
        KeyError
            There is no such column.
        RowNotFoundError
            A row does not exist or is deleted (an ``IndexError``, and a ``ValueError`` as in pylance).
        PathPolicyError
            A blob names an external object that the table may not read.
        """
        return blobs.take_blobs(self._context, blob_column, ids, addresses, indices, buffer_size=buffer_size)

    def read_blobs(
        self,
        blob_column: str,
        ids: Any = None,
        addresses: Any = None,
        indices: Any = None,
        *,
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, bytes | None]]:
        """The bytes of the blobs of some rows; blobs in one object are fetched together.

        Parameters
        ----------
        blob_column, ids, addresses, indices
            As for :meth:`take_blobs`, which raises the same errors.
        io_buffer_size, preserve_order : optional
            Accepted for compatibility with pylance, and ignored.

        Returns
        -------
        list of (int, bytes or None)
            Row address and bytes, in the order of the rows; None for a null.

        Examples
        --------
        >>> import lancecy, pyarrow as pa
        >>> image = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        >>> rows = pa.table({"image": [b"one", None, b"three"]}, pa.schema([image]))
        >>> album = lancecy.write_dataset(rows, "memory://pictures")
        >>> album.read_blobs("image", indices=[2, 1])
        [(2, b'three'), (1, None)]
        >>> album.read_blob_ranges("image", [(0, 1, 2), (2, 0, 1)], selector="indices")
        [(0, 0, b'ne'), (1, 2, b't')]
        """
        positive("io_buffer_size", io_buffer_size)
        return blobs.read_blobs(self._context, blob_column, ids, addresses, indices)

    def read_blob_ranges(
        self,
        blob_column: str,
        requests: Sequence[tuple[int, int, int]],
        *,
        selector: Literal["ids", "addresses", "indices"],
        io_buffer_size: int | None = None,
        preserve_order: bool | None = None,
    ) -> list[tuple[int, int, bytes | None]]:
        """Ranges of the blobs of some rows; those in one object are fetched together.

        Parameters
        ----------
        blob_column : as for :meth:`take_blobs`
        requests : sequence of (row, offset, length)
            Offset and length are bytes of the row's blob. A row may come several times.
        selector : "ids", "addresses" or "indices"
            What the rows are, as in :meth:`take_blobs`.
        io_buffer_size, preserve_order : optional
            Accepted for compatibility with pylance, and ignored.

        Returns
        -------
        list of (int, int, bytes or None)
            Number of the request, row address and bytes, in the order of the requests; None for a null.

        Raises
        ------
        ValueError
            A range is negative or passes the end of its blob; the others as for :meth:`take_blobs`.
        """
        positive("io_buffer_size", io_buffer_size)
        return blobs.read_blob_ranges(self._context, blob_column, requests, selector)

    @checked_arguments(WITHOUT_SCAN_OPTIONS)
    def slice(self, start: int, end: int, columns: Columns = None) -> pa.Table:
        """Rows from a position to before another one, in table order.

        Parameters
        ----------
        start, end : int
            Positions among the rows that are not deleted; those beyond the last row are left out.
        columns : as for :meth:`scanner`

        Raises
        ------
        ValueError
            ``start`` is negative or greater than ``end``.
        """
        start, end = whole_number("start", start), whole_number("end", end)
        if start < 0:
            raise ValueError(f"start must not be negative, got {start}")
        if end < start:
            raise ValueError(f"end must be at least start, which is {start}, got {end}")
        return self.to_table(columns, limit=end - start, offset=start)

    @checked_arguments(WITHOUT_SCAN_OPTIONS)
    def sample(
        self, num_rows: int, columns: Columns = None, randomize_order: bool = True, seed: int | None = None
    ) -> pa.Table:
        """Distinct rows chosen at random.

        Parameters
        ----------
        num_rows : int
            Number of rows; the whole table if it has fewer.
        columns : as for :meth:`scanner`
        randomize_order : bool
            False returns them in table order.
        seed : int, optional
            Makes the choice repeatable.
        """
        if num_rows < 0:
            raise ValueError(f"num_rows must not be negative, got {num_rows}")
        total = self.count_rows()
        picked = np.random.default_rng(seed).choice(total, min(num_rows, total), replace=False)
        return self.take(picked if randomize_order else np.sort(picked), columns)

    # -- fragments ------------------------------------------------------------

    @checked_arguments()
    def get_fragments(self, filter: Filter = None) -> list[LanceFragment]:
        """Fragments in table order: all of them, or those that may have rows that pass a filter.

        Parameters
        ----------
        filter : str, pyarrow.compute.Expression or lancecy.Expr, optional
            Leaves out fragments of which metadata and indices, such as zone maps, tell that no row passes. No data file
            is read.

        Raises
        ------
        ColumnNotFoundError, ExpressionError
            The filter does not fit the schema.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"n": range(9)}, "memory://pruned", max_rows_per_file=3, zonemaps=True)
        >>> [fragment.fragment_id for fragment in ds.get_fragments("n > 6")]
        [2]
        """
        here = self._unmoved()
        if filter is None:
            return [LanceFragment(here, f) for f in here.context.fragments]
        plan = here._scan({"columns": [], "filter": filter}).plan()
        return [LanceFragment(here, f) for f in here.context.selected([unit.fragment for unit in plan.units])]

    def fragment_ids(self) -> list[int]:
        """Ids of all fragments, ascending."""
        return [fragment.stored_id for fragment in self._context.fragments]

    @checked_arguments()
    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """The fragment with this id, or None.

        Parameters
        ----------
        fragment_id : int
        """
        here = self._unmoved()
        found = [f for f in here.context.fragments if f.id == fragment_id]
        return LanceFragment(here, found[0]) if found else None

    # -- inspection -----------------------------------------------------------

    @checked_arguments()
    def bases(self, *, check: bool = True) -> list[BaseStatus]:
        """The table's own folder and its bases: files and bytes of this version, and whether they answer.

        Parameters
        ----------
        check : bool
            Look for some data files in each place, replicas included. False makes no request.

        Returns
        -------
        list of BaseStatus
            The table's own folder first. No place raises an error: ``health`` and ``error`` tell it.

        Examples
        --------
        >>> import lancecy
        >>> [(base.id, base.num_files, base.health) for base in lancecy.dataset("example.lance").bases()]
        [(None, 4, 'ok')]
        """
        return base_statuses(self._snapshot, check=check)

    def summary(self) -> dict[str, Any]:
        """Version, rows, fragments, files, bases and similar facts as JSON-serializable values.

        Examples
        --------
        >>> import lancecy
        >>> lancecy.dataset("example.lance").summary()["rows"]
        1000
        """
        return display.summary(self._context)

    def verify(
        self,
        columns: Sequence[str] | None = None,
        fragments: Sequence[LanceFragment | int] | None = None,
        progress: Progress | None = None,
    ) -> Verification:
        """Read every page and statistic of this version and report damage.

        Parameters
        ----------
        columns : sequence of str, optional
            Top-level columns to read; all of them if not given.
        fragments : sequence of LanceFragment or int, optional
            Fragments to look at.
        progress : function of a :class:`lancecy.progress.Step`, optional
            Called with the progress.

        Returns
        -------
        Verification
            True if nothing is damaged; ``findings`` lists each damage with its place.

        Raises
        ------
        ColumnNotFoundError, NotFoundError
            A column or fragment does not exist.

        Notes
        -----
        For blob columns, it reads the descriptors and not the blobs. Tags and branches of the table are checked too: that
        their files can be read, and that the versions they name are there.

        Examples
        --------
        >>> import lancecy
        >>> lancecy.dataset("example.lance").verify().is_ok
        True
        """
        return verify(self._context, columns, _fragment_ids(fragments), progress)

    def validate(self) -> None:
        """Check the metadata of this version: fragments, files, deletions, row ids, tags and branches.

        Opens every data file, and reads none of its pages: :meth:`verify` does.

        Raises
        ------
        FormatError
            Something is damaged or missing; the message says where.
        """
        raise_if_damaged(verify(self._context, ()))

    def diff(
        self,
        old: Reference | Dataset,
        new: Reference | Dataset | None = None,
        *,
        columns: Sequence[str] | None = None,
    ) -> TableDiff:
        """The differences from another version to this one: what this one has more, other and less.

        Parameters
        ----------
        old : int, str, tuple or Dataset
            A version of this table: its number on this branch, the name of a tag, or ``(branch, number)``, where the
            branch None or "main" is the main one, and the number None is the newest version. Or an open Dataset of it.
        new : int, str, tuple or Dataset, optional
            The version to compare with it. This one if not given.
        columns : sequence of str, optional
            Columns of the rows in the result, names of the new version, nested ones with dots. All if not given.

        Returns
        -------
        TableDiff
            Columns, fragments and configuration come from the manifests; ``num_added``, ``num_updated`` and
            ``num_removed`` count rows from metadata alone; ``to_table()``, ``to_batches()`` and ``to_pandas()`` give
            the rows, with the columns of :meth:`changes`.

        Raises
        ------
        NotFoundError
            There is no such version, tag or branch.
        ValueError
            The Dataset is not of this table.

        Notes
        -----
        With stable row ids, rows are compared by id. Row ids that two branches gave out after their last common version
        stand for different rows, and are never matched. A row that changed on either side counts as updated, even if
        it has the same values on both.

        Without stable row ids, rows are compared by fragment: rows of a fragment that only one side has were added or
        removed, rows that moved included. Deletions are exact.

        Files that both versions have are not read. After a :meth:`fast_forward`, the branch's rows are the same in both.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.write_dataset({"n": [1, 2, 3]}, "memory://differing", enable_stable_row_ids=True)
        >>> ds.append({"n": [4]})
        >>> ds.delete("n = 2")
        {'num_deleted_rows': 1}
        >>> found = ds.diff(1)
        >>> found.num_added, found.num_updated, found.num_removed
        (1, 0, 1)
        >>> found.to_table().select(["n", "_change_type"]).to_pylist()
        [{'n': 2, '_change_type': 'delete'}, {'n': 4, '_change_type': 'insert'}]
        """
        return compare(self._referenced(old), self._referenced(self if new is None else new), columns)

    def _referenced(self, reference: Reference | Dataset) -> Dataset:
        """The version that a reference names."""
        return reference._unmoved() if isinstance(reference, Dataset) else self._reopen(reference)

    def layout(self) -> Layout:
        """Bytes of every column in every fragment, from the metadata of the data files."""
        return layout(self._context)

    def plot_layout(self, axes: Any = None) -> Any:
        """A picture of :meth:`layout`: fragments by columns, bytes as colours, deletions as bars.

        Parameters
        ----------
        axes : pair of matplotlib Axes, optional
            A new figure if not given.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            matplotlib is not installed (``pip install 'lancecy[plot]'``).
        """
        return self.layout().plot(axes)

    # -- other engines --------------------------------------------------------

    @property
    def _whole_table(self) -> Dataset:
        """This version without ``default_scan_options``, which would take the place of an engine's own filter or limit."""
        return self._unmoved()

    def to_pyarrow_dataset(self, read_dictionary: Sequence[str] | bool | None = None) -> pads.Dataset:
        """The table as a ``pyarrow.dataset.Dataset``, for engines that push columns and filters down to it.

        DuckDB finds it by the name of the Python variable; Polars reads it with ``scan_pyarrow_dataset``
        (:meth:`to_polars_lazy` pushes more down).

        Parameters
        ----------
        read_dictionary : list of names or bool, optional
            These text columns are dictionaries in the schema and in every scan, as in :meth:`scanner`: DuckDB, which
            shows them as VARCHAR, groups by them in less than half the time. True means those that the files store with
            dictionaries.

        Raises
        ------
        ColumnNotFoundError
            No column has such a name.
        ValueError
            A named column is no text.

        Examples
        --------
        >>> import lancecy, pyarrow.compute as pc
        >>> ds = lancecy.dataset("example.lance").to_pyarrow_dataset()
        >>> ds.to_table(columns=["id"], filter=pc.field("id") < 3).num_rows
        3
        """
        from lancecy.interop.pyarrow_dataset import to_pyarrow_dataset

        return to_pyarrow_dataset(self._whole_table, read_dictionary)

    def sql(self, sql: str) -> SqlQueryBuilder:
        """An SQL query over this version, run by DuckDB; its columns and filters reach the scan.

        Parameters
        ----------
        sql : str
            One SELECT in DuckDB's dialect, in which the table is named ``dataset``. It can read nothing else: no files,
            no other tables.

        Returns
        -------
        SqlQueryBuilder
            Sets options; ``build().to_batch_records()`` returns the rows, ``to_stream_reader()`` a stream.

        Raises
        ------
        ImportError
            DuckDB is not installed (``pip install 'lancecy[duckdb]'``).
        TypeError
            The query is not a text.

        Examples
        --------
        >>> import lancecy
        >>> ds = lancecy.dataset("example.lance")
        >>> query = ds.sql("SELECT count(*) AS n FROM dataset WHERE k < 10").build()
        >>> query.to_batch_records()[0].to_pylist()
        [{'n': 100}]
        """
        from lancecy.interop.sql import SqlQueryBuilder

        return SqlQueryBuilder(self._whole_table, sql)

    def to_polars_lazy(self, filter: Filter = None) -> pl.LazyFrame:
        """The table as a Polars ``LazyFrame`` whose columns, predicates and limits reach the scan.

        Parameters
        ----------
        filter : as for :meth:`scanner`
            Applied in addition to the predicates that Polars pushes down.

        Raises
        ------
        ImportError
            Polars is not installed (``pip install 'lancecy[polars]'``).

        Notes
        -----
        Polars filters the result again, so NaN follows its rule and ranks above every number.
        """
        from lancecy.interop.polars import to_polars_lazy

        return to_polars_lazy(self._whole_table, filter)

    # -- protocols ------------------------------------------------------------

    def __len__(self) -> int:
        return self.count_rows()

    def __arrow_c_schema__(self) -> object:
        """The schema as an Arrow C capsule."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A new stream of all rows as an Arrow C capsule."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.location, self.version, self._scan_defaults)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return (self.uri, self.version) == (other.uri, other.version)

    def __hash__(self) -> int:
        return hash(self.uri)  # the version changes when the table is changed by this object

    def __repr__(self) -> str:
        return display.dataset_text(self._context)

    def _repr_html_(self) -> str:
        return display.dataset_html(self._context)

    def session(self) -> Session:
        """Caches and threads of this dataset, to share with other datasets by ``session=``."""
        return self._session

    # -- for the layers above -------------------------------------------------

    @property
    def context(self) -> ScanContext:
        """State shared by scans of this dataset (for the Dask and Spark layers)."""
        return self._context

    def scan_spec(self, request: ScanRequest, embed_credentials: bool = False) -> ScanSpec:
        """The description of a scan that its tasks carry; without secrets unless embedded.

        Parameters
        ----------
        request : ScanRequest
        embed_credentials : bool
        """
        return ScanSpec.of(self._snapshot, request, embed_credentials)


LanceDataset = Dataset
"""Name of the class in pylance."""


class _Current:
    """The version that a dataset is at. One that this process wrote is decoded on first use, which needs no storage."""

    def __init__(self, snapshot: Snapshot | None, make: Callable[[], Snapshot] | None = None) -> None:
        self._snapshot, self._make = snapshot, make

    @property
    def snapshot(self) -> Snapshot:
        # Read in this order: another thread that makes it sets one, and then the other.
        make, found = self._make, self._snapshot
        if found is None:
            found = self._snapshot = make()  # type: ignore[misc]
            self._make = None
        return found

    @cached_property
    def context(self) -> ScanContext:
        # Made on first use: it needs all fragments, and making thousands of them takes longer than opening the table.
        return ScanContext(self.snapshot, self.snapshot.session)

    @cached_property
    def lance_schema(self) -> LanceSchema:
        return LanceSchema.of(self.snapshot.schema)


def _reopen(
    location: TableLocation, version: int, default_scan_options: Mapping[str, Any] | None = None
) -> Dataset:
    return Dataset(load_snapshot(location.known_to(default()), version), default_scan_options)


@with_short_tracebacks
class LanceFragment(Scans, FragmentChanges, FragmentColumns, RefusedNames):
    """A horizontal slice of a dataset; made by :meth:`Dataset.get_fragments`.

    It stays at the version that the dataset had then.

    Parameters
    ----------
    dataset : Dataset
    fragment_id : int or Fragment
        Or the fragment's entry in the manifest.

    Raises
    ------
    ValueError
        The version has no fragment of that id.

    Examples
    --------
    >>> import lancecy
    >>> ds = lancecy.write_dataset({"a": [1, 2]}, "memory://doc-fragment-by-id")
    >>> lancecy.fragment.LanceFragment(ds, 0).count_rows()
    2
    """

    _refused_names = FRAGMENT_NAMES
    _dataset: Dataset

    def __init__(self, dataset: Dataset, fragment_id: Fragment | int) -> None:
        if isinstance(fragment_id, int):
            found = dataset.get_fragment(fragment_id)
            if found is None:
                raise ValueError(f"version {dataset.version} has no fragment {fragment_id}")
            self._dataset, self._metadata = found._dataset, found._metadata
            return
        self._dataset = dataset
        self._metadata = fragment_id

    @property
    def fragment_id(self) -> int:
        """Its id."""
        return self._metadata.stored_id

    @property
    def metadata(self) -> FragmentMetadata:
        """Its entry in the manifest, which can be sent as JSON."""
        return FragmentMetadata.of(self._metadata)

    @property
    def schema(self) -> pa.Schema:
        """The table's schema: columns the fragment lacks read as null."""
        return self._dataset.context.snapshot.schema.arrow

    @property
    def physical_rows(self) -> int:
        """Rows, deleted ones included."""
        return self._dataset.context.physical_rows(self._metadata)

    @property
    def num_deletions(self) -> int:
        """Deleted rows."""
        return self.physical_rows - self._dataset.context.live_rows(self._metadata)

    def data_files(self) -> list[DataFile]:
        """Its data files."""
        return list(self._metadata.files)

    def deletion_file(self) -> str | None:
        """Path of the file that lists its deleted rows, in the table's folder or its base; None without any.

        ``metadata.deletion_file`` describes it.
        """
        file = self._metadata.deletion_file
        return None if file is None else file.path(self._metadata.stored_id)

    @scanning
    def scanner(
        self,
        columns: Columns = None,
        filter: Filter = None,
        limit: int | None = None,
        offset: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> Scanner:
        """A scan of this fragment alone; arguments as for :meth:`Dataset.scanner`."""
        given = {"columns": columns, "filter": filter, "limit": limit, "offset": offset, **options}
        return self._dataset._scan({**given, "fragments": [self._metadata.id]})

    def count_rows(self, filter: Filter = None) -> int:
        """Its live rows, or those that pass the filter."""
        if filter is None:
            return self._dataset.context.live_rows(self._metadata)
        return self.scanner(columns=[], filter=filter).count_rows()

    def take(self, indices: Indices, columns: Columns = None) -> pa.Table:
        """Its live rows by number, in the order given.

        Parameters
        ----------
        indices : (n,) integers
            Numbers among the live rows of this fragment, duplicates allowed.
        columns : as for :meth:`Dataset.scanner`

        Raises
        ------
        IndexError
            A row number is negative or too large.
        """
        context = self._dataset.context
        first = int(context.row_starts()[[f.id for f in context.fragments].index(self._metadata.id)])
        return self._dataset.take(as_row_numbers(indices, self.count_rows()) + first, columns)

    def open_session(self, columns: Columns = None, with_row_address: bool = False) -> FragmentSession:
        """Takes of the same columns, again and again.

        Parameters
        ----------
        columns : as for :meth:`Dataset.scanner`
        with_row_address : bool
            Append ``_rowaddr``.

        Raises
        ------
        ColumnNotFoundError, ExpressionError
            The columns do not fit the schema.

        Examples
        --------
        >>> import lancecy
        >>> session = lancecy.dataset("example.lance").get_fragments()[1].open_session(["id"])
        >>> session.take([0, 2]).to_pydict()
        {'id': [300, 302]}
        """
        if with_row_address:
            names = self.schema.names if columns is None else columns
            columns = (
                {**names, "_rowaddr": "_rowaddr"} if isinstance(names, Mapping) else [*names, "_rowaddr"]
            )
        self.scanner(columns)
        return FragmentSession(self, columns)

    def __repr__(self) -> str:
        files = [file.path for file in self._metadata.files]
        return f"LanceFragment(id={self.fragment_id}, rows={self.count_rows()}, data_files={files})"


class FragmentSession:
    """Takes rows of a fragment; made by :meth:`LanceFragment.open_session`."""

    def __init__(self, fragment: LanceFragment, columns: Columns) -> None:
        self._fragment, self._columns = fragment, columns

    def take(self, indices: Indices) -> pa.Table:
        """Live rows by number, in the order given.

        Parameters
        ----------
        indices : as for :meth:`LanceFragment.take`

        Raises
        ------
        IndexError
            A row number is negative or too large.
        """
        return self._fragment.take(indices, self._columns)
