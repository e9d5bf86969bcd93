"""Fields, schemas and the format's type strings.

A :class:`Field` is a node of the schema tree with its id; a :class:`Schema` is the
tree with look-ups. This is the only module that translates ``logical_type`` strings
to Arrow types (file sheet 0.1 section 2, table sheet 1.2). Extension types are restored
if they are registered with Arrow or among those of :mod:`lancecy.arrow`. Others stay
inert: the storage type is used, and the extension's name and metadata stay in the
field's metadata. Code for pylance imports ``LanceSchema``, ``schema_to_json`` and ``json_to_schema`` from here, too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cached_property, lru_cache

import pyarrow as pa

from lancecy.arrow import extension_type
from lancecy.errors import ColumnNotFoundError, FormatError, LimitError, UnsupportedError, printable
from lancecy.lazy_attributes import lazy_attributes
from lancecy.limits import DEFAULT_LIMITS, Limits
from lancecy.records import dataclass

__all__ = [
    "EXTENSION_KEY",
    "EXTENSION_METADATA_KEY",
    "DictionaryRef",
    "Field",
    "Schema",
    "exported_metadata",
    "join_name",
    "logical_type_of",
    "parse_logical_type",
    "restored",
    "split_name",
]

_PYLANCE = {
    "lancecy.changes.lance_schema": "LanceSchema",
    "lancecy.schema_json": "json_to_schema schema_to_json",
}
__getattr__ = lazy_attributes(__name__, _PYLANCE)[0]

_PLAIN_TYPES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    # JSON is stored as JSONB; a scan returns text under Arrow's extension type.
    "json": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    "duration:s": pa.duration("s"),
    "duration:ms": pa.duration("ms"),
    "duration:us": pa.duration("us"),
    "duration:ns": pa.duration("ns"),
    # bfloat16 values in fixed-size lists are named by extension; each is two opaque bytes.
    "lance.bfloat16": pa.binary(2),
}
# Type strings by Arrow's type id.
_PLAIN_BY_ID: dict[int, list[tuple[str, pa.DataType]]] = {}
for _text, _kind in _PLAIN_TYPES.items():
    if _text not in ("json", "lance.bfloat16"):
        _PLAIN_BY_ID.setdefault(_kind.id, []).append((_text, _kind))
_NESTED_TYPES = frozenset({"struct", "list", "list.struct", "large_list", "large_list.struct", "map"})
_UNITS = frozenset({"s", "ms", "us", "ns"})
_STRUCT_LIST = "fixed_size_list:struct:"
BLOB_KEY = "lance-encoding:blob"
PACKED_KEYS = ("lance-encoding:packed", "packed")
BLOB_EXTENSION = "lance.blob.v2"
EXTENSION_KEY = "ARROW:extension:name"
EXTENSION_METADATA_KEY = "ARROW:extension:metadata"
_BFLOAT16 = "lance.bfloat16"
# A scan returns a blob's position and size instead of its bytes. These ids belong to no field of any table.
_BLOB_V1 = (("position", -2, "uint64"), ("size", -3, "uint64"))
_BLOB_V2 = (
    ("kind", -2, "uint8"),
    ("position", -3, "uint64"),
    ("size", -4, "uint64"),
    ("blob_id", -5, "uint32"),
    ("blob_uri", -6, "string"),
)


def _size_after_colon(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise FormatError(f"{what} in a type string is not a number: {text!r}")
    if len(text) > 10:
        raise LimitError(f"{what} {text} in a type string", limit="value_bytes", claimed=int(text[:18]))
    return int(text)


@lru_cache(maxsize=4096)
def parse_logical_type(text: str, limits: Limits = DEFAULT_LIMITS) -> pa.DataType:
    """Arrow type of a leaf's type string.

    Parameters
    ----------
    text : str
        Such as ``"timestamp:us:UTC"`` or ``"fixed_size_list:float:768"``.

    Raises
    ------
    FormatError
        The string is not valid in the format.
    LimitError
        Nesting or a width beyond ``limits``.
    UnsupportedError
        A nested type (struct, list, map): these need the children of a field.

    Source: file sheet 0.1, section 2.2.

    Examples
    --------
    >>> parse_logical_type("timestamp:us:+05:30")
    TimestampType(timestamp[us, tz=+05:30])
    """
    # A loop removes the prefixes: a type string of a hostile file may nest thousands deep.
    sizes: list[int] = []
    inner = text
    while inner.startswith("fixed_size_list:"):
        limits.check("nesting", len(sizes) + 1, "nesting of a fixed-size list")
        inner, _, digits = inner[len("fixed_size_list:") :].rpartition(":")
        sizes.append(_size_after_colon(digits, "list size"))
    result = _leaf_type(inner, limits)
    width = _fixed_bytes(result, text) if sizes else 1
    for size in reversed(sizes):
        width *= max(1, size)
        limits.check("value_bytes", width, "width of a fixed-size list")
        result = pa.list_(pa.field("item", result, True), size)
    return result


def _fixed_bytes(data_type: pa.DataType, text: str) -> int:
    """Bytes of a value inside a fixed-size list, at least 1."""
    types = pa.types
    if types.is_fixed_size_binary(data_type):
        return max(1, int(data_type.byte_width))
    if not (types.is_primitive(data_type) or types.is_decimal(data_type)):
        raise UnsupportedError(f"type {printable(text)!r} has items without a fixed width", feature=text)
    return max(1, int(data_type.bit_width) // 8)


def _leaf_type(text: str, limits: Limits) -> pa.DataType:
    known = _PLAIN_TYPES.get(text)
    if known is not None:
        return known
    kind, _, rest = text.partition(":")
    if kind == "timestamp":
        unit, _, zone = rest.partition(":")
        if unit in _UNITS:
            # "-" means "no zone"; the C++ releases dropped the third part.
            return pa.timestamp(unit, tz=None if zone in ("", "-") else _zone(zone))
    elif kind == "decimal":
        return _decimal_type(rest)
    elif kind == "fixed_size_binary":
        return pa.binary(
            limits.check("value_bytes", _size_after_colon(rest, "byte width"), "width of a value")
        )
    elif kind == "dict":
        return _dictionary_type(rest)
    elif text in _NESTED_TYPES:
        raise UnsupportedError(
            f"type {text!r} has children, which its type string does not describe", feature=text
        )
    raise FormatError(f"unknown type string {printable(text)!r}")


def _zone(text: str) -> str:
    if len(text) > 64 or not text.isprintable():
        raise FormatError(f"invalid time zone {text!r} in a type string")
    return text


def _decimal_type(rest: str) -> pa.DataType:
    parts = rest.split(":")
    if len(parts) == 3 and parts[0] in ("128", "256"):
        digits, scale = parts[1], parts[2]
        if digits.isdigit() and scale.lstrip("-").isdigit() and max(len(digits), len(scale)) <= 4:
            make = pa.decimal128 if parts[0] == "128" else pa.decimal256
            try:
                return make(int(digits), int(scale))
            except ValueError as error:
                raise FormatError(f"invalid decimal type string 'decimal:{rest}'") from error
    raise FormatError(f"invalid decimal type string 'decimal:{printable(rest)}'")


def _dictionary_type(rest: str) -> pa.DataType:
    parts = rest.split(":")
    if len(parts) != 3:
        raise FormatError(f"dictionary type string 'dict:{printable(rest)}' needs value, key and order")
    value, key = _PLAIN_TYPES.get(parts[0]), _PLAIN_TYPES.get(parts[1])
    if value is None or key is None or not pa.types.is_integer(key):
        raise FormatError(f"invalid dictionary type string 'dict:{printable(rest)}'")
    return pa.dictionary(key, value, ordered=parts[2] == "true")


@dataclass(frozen=True, slots=True)
class DictionaryRef:
    """Location of the values of a 0.1 dictionary field: ``length`` values at ``offset`` in the manifest file."""

    offset: int
    length: int


@dataclass(frozen=True)
class Field:
    """A logical column or a node below one.

    Attributes
    ----------
    name : str
        Of this level only.
    id : int
    parent_id : int
        -1 for a top-level field.
    logical_type : str
        As stored.
    nullable : bool
    encoding : int
        As stored (0 none, 1 plain, 2 variable binary, 3 dictionary); readers derive it from the type.
    dictionary : DictionaryRef or None
    extension_name : str
    metadata : mapping of str to bytes
    children : tuple of Field
    in_codes : bool
        Texts are read as codes into a dictionary: a form in which a scan reads the field, in no schema.
    """

    name: str
    id: int
    parent_id: int = -1
    logical_type: str = ""
    nullable: bool = True
    encoding: int = 0
    dictionary: DictionaryRef | None = None
    extension_name: str = ""
    metadata: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    children: tuple[Field, ...] = ()
    unenforced_primary_key: bool = False
    unenforced_primary_key_position: int = 0
    in_codes: bool = False
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        # Fields are keys of many small caches; id and name distinguish them well enough.
        found = hash((self.id, self.name, self.logical_type, len(self.children)))
        object.__setattr__(self, "_hash", found)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        # Hashes of texts differ between processes.
        return type(self), tuple(getattr(self, part.name) for part in fields(self) if part.init)

    def walk(self) -> Iterator[Field]:
        """This field and everything below it, depth first."""
        if not self.children:
            yield self
            return
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    @cached_property
    def ids(self) -> frozenset[int]:
        """Ids of this field and everything below it."""
        return frozenset(node.id for node in self.walk())

    @property
    def is_struct(self) -> bool:
        return self.logical_type == "struct"

    @property
    def is_list(self) -> bool:
        """A list of either offset width."""
        return self.logical_type in ("list", "list.struct", "large_list", "large_list.struct")

    @property
    def is_large_list(self) -> bool:
        return self.logical_type in ("large_list", "large_list.struct")

    @property
    def is_map(self) -> bool:
        """Stored as a list of structs of key and value."""
        return self.logical_type == "map"

    @property
    def is_fixed_list(self) -> bool:
        """A fixed-size list of structs, the only one whose elements are a field."""
        return self.logical_type.startswith(_STRUCT_LIST)

    @property
    def list_size(self) -> int:
        """Elements of each list of a fixed-size list of structs.

        Raises
        ------
        FormatError, LimitError
            The type string has no size, or one that is too large.
        """
        size = _size_after_colon(self.logical_type[len(_STRUCT_LIST) :], "list size")
        return DEFAULT_LIMITS.check("value_bytes", size, "size of a fixed-size list")

    @property
    def is_blob(self) -> bool:
        """Whether this is a blob: a large value that a scan returns as position and size."""
        return bool(self.metadata or self.extension_name) and self._is_marked_blob

    @property
    def is_blob_v2(self) -> bool:
        """Whether this is a blob of the extension type ``lance.blob.v2``, from version 2.2 on: a struct for writers."""
        return self.is_blob and self.is_struct

    @cached_property
    def _is_marked_blob(self) -> bool:
        return BLOB_KEY in self.metadata or self._extension == BLOB_EXTENSION

    @property
    def is_said_packed(self) -> bool:
        """Whether the metadata asks for packed storage, row by row; it has meaning for structs only."""
        return bool(self.metadata) and any(key in self.metadata for key in PACKED_KEYS)

    @property
    def is_packed(self) -> bool:
        """Whether this is a struct stored row by row in one column."""
        return self.is_struct and self.is_said_packed

    @property
    def is_whole(self) -> bool:
        """Whether files of 2.x hold the whole subtree in one column: packed structs and descriptors of blobs."""
        return bool(self.metadata or self.extension_name) and (self.is_packed or self.is_blob)

    @cached_property
    def num_leaves(self) -> int:
        """Number of fields without children, this one or those below it."""
        return sum(child.num_leaves for child in self.children) or 1

    @cached_property
    def _extension(self) -> str:
        return self.extension_name or self.metadata.get(EXTENSION_KEY, b"").decode("utf-8", "replace")

    @property
    def is_leaf(self) -> bool:
        return not self.children and self.logical_type not in _NESTED_TYPES

    @cached_property
    def storage_type(self) -> pa.DataType:
        """Arrow type of the values as stored, with the children of this (possibly pruned) tree."""
        kind = self.logical_type
        if kind in _PLAIN_TYPES and not self.children and not self.in_codes:
            return _PLAIN_TYPES[kind]
        if kind == "struct":
            return pa.struct([child.arrow_field for child in self.children])
        if self.is_list:
            make = pa.large_list if self.is_large_list else pa.list_
            return make(self._only_child().arrow_field)
        if self.is_map:
            return self._map_type()
        if self.is_fixed_list:
            return pa.list_(self._only_child().arrow_field, self.list_size)
        if self.children:
            raise FormatError(f"field {self.name!r} of type {kind!r} has children")
        stored = parse_logical_type(kind)
        return pa.dictionary(pa.int32(), stored) if self.in_codes else stored

    def _only_child(self) -> Field:
        if len(self.children) != 1:
            raise FormatError(
                f"field {printable(self.name)!r} of type {printable(self.logical_type)} has {len(self.children)} "
                "children instead of 1"
            )
        return self.children[0]

    def _map_type(self) -> pa.DataType:
        entries = self._only_child()
        if not entries.is_struct or len(entries.children) != 2:
            raise FormatError(f"map field {printable(self.name)!r} does not consist of keys and values")
        key, value = (child.arrow_field for child in entries.children)
        if pa.types.is_null(key.type):
            raise FormatError(f"keys of the map field {printable(self.name)!r} are of the null type")
        return pa.map_(key.with_nullable(False), value)

    @cached_property
    def arrow_field(self) -> pa.Field:
        """Arrow field; a registered extension type is restored, others stay storage type and metadata."""
        if self.logical_type == "json":
            metadata = {k: v for k, v in self.metadata.items() if not k.startswith("ARROW:extension:")}
            return pa.field(self.name, pa.json_(), self.nullable, metadata or None)
        metadata = dict(self.metadata)
        if self.extension_name:
            metadata.setdefault(EXTENSION_KEY, self.extension_name.encode())
        # Arrow has no non-nullable field of the null type; a manifest may have one.
        nullable = self.nullable or pa.types.is_null(self.storage_type)
        kind = self.storage_type
        if _BFLOAT16 in self.logical_type and self.is_leaf:
            kind = _with_bfloat16(kind)
        plain = pa.field(self.name, kind, nullable, metadata or None)
        return restored(plain) if EXTENSION_KEY in metadata else plain

    @property
    def arrow_type(self) -> pa.DataType:
        """Arrow type of the values."""
        return self.arrow_field.type

    def pruned(self, keep: frozenset[int], keeps_structs: bool = False) -> Field | None:
        """The tree with only the leaves (and childless parents) whose ids are in ``keep``, or None.

        Parameters
        ----------
        keep : frozenset of int
        keeps_structs : bool
            Structs in ``keep`` stay even without any of their children.
        """
        if not self.children or self.is_blob:
            return self if self.id in keep else None
        found = (child.pruned(keep, keeps_structs) for child in self.children)
        children = tuple(child for child in found if child is not None)
        if children == self.children:
            return self
        stays = bool(children) or (keeps_structs and self.is_struct and self.id in keep)
        return replace(self, children=children) if stays else None

    @cached_property
    def scanned(self) -> Field:
        """The field as a scan returns it: blobs, at any depth, are structs of position and size.

        Examples
        --------
        >>> blob = Field("b", 0, logical_type="large_binary", metadata={"lance-encoding:blob": b"true"})
        >>> blob.scanned.arrow_type
        StructType(struct<position: uint64, size: uint64>)
        """
        if self.is_blob:
            return self._descriptors()
        if not self.children:
            return self
        children = tuple(child.scanned for child in self.children)
        if all(mine is theirs for mine, theirs in zip(children, self.children, strict=True)):
            return self
        return replace(self, children=children)

    def _descriptors(self) -> Field:
        """A blob's struct of position and size, or, for blobs stored as structs, of five members."""
        is_v2 = self.is_struct
        if is_v2 and self.children and self.children[0].id < -1:
            return self
        children = tuple(
            Field(name, child_id, self.id, kind, nullable=not is_v2)
            for name, child_id, kind in (_BLOB_V2 if is_v2 else _BLOB_V1)
        )
        packed = {"lance-encoding:packed": b"true"} if is_v2 else {}
        metadata = {k: v for k, v in self.metadata.items() if not k.startswith("ARROW:extension:")}
        metadata = {**metadata, **packed, BLOB_KEY: self.metadata.get(BLOB_KEY, b"true")}
        return replace(self, logical_type="struct", children=children, metadata=metadata, extension_name="")


class _Exported:
    """A field behind Arrow's C interface; importing it restores extension types."""

    def __init__(self, field: pa.Field) -> None:
        self._field = field

    def __arrow_c_schema__(self) -> object:
        return self._field.__arrow_c_schema__()


def restored(field: pa.Field) -> pa.Field:
    """The field with the extension type that its metadata names; unchanged if there is none that fits.

    Parameters
    ----------
    field : pyarrow.Field
    """
    try:
        # C ends a name at a NUL byte, so the name is set again.
        found = pa.field(_Exported(field)).with_name(field.name)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, ValueError, KeyError):
        # Extension metadata that does not fit the storage type: the storage is still readable.
        return field
    if not isinstance(found.type, pa.BaseExtensionType):
        return _of_lancecy(found)
    # The types of pylance do not look at the storage, which another type in the metadata must not replace.
    return found if found.type.storage_type == field.type else field


def _of_lancecy(field: pa.Field) -> pa.Field:
    """The field with a type of ``lancecy.arrow``; unchanged if its metadata names none that fits."""
    metadata = dict(field.metadata or {})
    name = metadata.pop(EXTENSION_KEY.encode(), b"").decode("utf-8", "replace")
    kind = extension_type(name, field.type, metadata.pop(EXTENSION_METADATA_KEY.encode(), b""))
    return field if kind is None else pa.field(field.name, kind, field.nullable, metadata)


def _with_bfloat16(kind: pa.DataType) -> pa.DataType:
    """A fixed-size list of two bytes each as one of bfloat16, at any depth."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_with_bfloat16(kind.value_type)), kind.list_size)
    if kind != pa.binary(2):
        return kind
    return restored(pa.field("item", kind, metadata={EXTENSION_KEY: _BFLOAT16})).type


class _ArrowSchema(ctypes.Structure):
    """The first members of ``ArrowSchema`` in Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def exported_metadata(field: pa.Field) -> dict[bytes, bytes]:
    """Metadata with the keys of the field's extension type, which pyarrow exports only through the C interface.

    Parameters
    ----------
    field : pyarrow.Field

    Examples
    --------
    >>> exported_metadata(pa.field("id", pa.uuid()))[b"ARROW:extension:name"]
    b'arrow.uuid'
    """
    capsule = field.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    at = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    texts: list[bytes] = []
    left = 2 * ctypes.c_int32.from_address(at).value if at else 0
    at = (at or 0) + 4
    for _ in range(left):
        length = ctypes.c_int32.from_address(at).value
        texts.append(ctypes.string_at(at + 4, length))
        at += 4 + length
    return dict(zip(texts[0::2], texts[1::2], strict=True))


@dataclass(frozen=True)
class Schema:
    """The fields of a table.

    Attributes
    ----------
    fields : tuple of Field
        Top level, in order.
    metadata : mapping of str to bytes
        Arrow schema metadata.
    """

    fields: tuple[Field, ...] = ()
    metadata: Mapping[str, bytes] = field(default_factory=dict, hash=False)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the top-level fields."""
        return tuple(f.name for f in self.fields)

    @cached_property
    def by_id(self) -> dict[int, Field]:
        """Every field of the tree by its id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def nodes(self) -> tuple[Field, ...]:
        """Every field of the tree, parents before their children."""
        return tuple(node for top in self.fields for node in ((top,) if not top.children else top.walk()))

    @cached_property
    def logical_types(self) -> frozenset[str]:
        """Types of all fields, as stored."""
        return frozenset([node.logical_type for node in self.nodes])

    @cached_property
    def blobs(self) -> tuple[Field, ...]:
        """The blobs, at any depth."""
        return tuple(node for node in self.nodes if node.is_blob)

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {f.name: f for f in self.fields}

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema, metadata included."""
        return pa.schema([f.arrow_field for f in self.fields], metadata=dict(self.metadata) or None)

    def to_pyarrow(self) -> pa.Schema:
        """:attr:`arrow`, under pylance's name."""
        return self.arrow

    @cached_property
    def scanned(self) -> Schema:
        """The schema of a scan of all columns; see ``Field.scanned``."""
        fields = tuple(field.scanned for field in self.fields)
        if all(mine is theirs for mine, theirs in zip(fields, self.fields, strict=True)):
            return self
        return replace(self, fields=fields)

    @property
    def max_field_id(self) -> int:
        """The largest id in use, -1 without fields."""
        return max(self.by_id, default=-1)

    def field(self, name: str) -> Field:
        """The top-level field of this name.

        Raises
        ------
        ColumnNotFoundError
            There is none; the message lists similar names.
        """
        found = self._by_name.get(name)
        if found is None:
            raise ColumnNotFoundError(name, self.names)
        return found

    def path(self, path: Sequence[str]) -> tuple[Field, ...]:
        """The fields along a nested path such as ``("a", "b")``, outermost first.

        Raises
        ------
        ColumnNotFoundError
        """
        chain = [self.field(path[0])]
        for name in path[1:]:
            children = {child.name: child for child in chain[-1].children}
            if name not in children or not chain[-1].is_struct:
                known = [".".join([*path[: len(chain)], c]) for c in children]
                raise ColumnNotFoundError(".".join(path), known)
            chain.append(children[name])
        return tuple(chain)

    def resolve(self, name: str) -> tuple[str, ...]:
        """Path for a column name: the top-level name itself, otherwise split at dots, without backquotes.

        Raises
        ------
        ColumnNotFoundError
        """
        if name in self._by_name:
            return (name,)
        path = tuple(split_name(name))
        self.path(path)
        return path

    def resolve_any_case(self, name: str) -> tuple[str, ...]:
        """As :meth:`resolve`; a name that there is not stands for the only one that differs from it in case.

        Raises
        ------
        ColumnNotFoundError
        """
        try:
            return self.resolve(name)
        except ColumnNotFoundError:
            path: list[str] = []
            level = self.fields
            for part in split_name(name):
                alike = [field for field in level if field.name.lower() == part.lower()]
                alike = [field for field in alike if field.name == part] or alike
                if len(alike) != 1:
                    raise
                path.append(alike[0].name)
                level = alike[0].children if alike[0].is_struct else ()
            return tuple(path)

    def select(self, names: Iterable[str]) -> Schema:
        """Only the named top-level fields, in the order named."""
        return Schema(tuple(self.field(name) for name in names), self.metadata)


def join_name(path: Iterable[str]) -> str:
    """The name of a nested column, from which :func:`split_name` makes the path again.

    Parameters
    ----------
    path : sequence of str

    Examples
    --------
    >>> join_name(["a", "b.c"])
    'a.`b.c`'
    """
    return ".".join(f"`{part.replace('`', '``')}`" if "." in part or "`" in part else part for part in path)


def split_name(name: str) -> list[str]:
    """Split a dotted name; dots between backquotes belong to the part, two backquotes stand for one.

    Parameters
    ----------
    name : str
        As written in SQL or as the name of a column.

    Returns
    -------
    list of str
        At least one part; parts may be empty, and the column need not exist.

    Examples
    --------
    >>> split_name("a.`b.c`")
    ['a', 'b.c']
    >>> split_name("`a``b`")
    ['a`b']
    """
    parts, current, quoted, index = [], "", False, 0
    while index < len(name):
        char = name[index]
        if char == "`" and quoted and name[index + 1 : index + 2] == "`":
            current, index = current + "`", index + 1
        elif char == "`":
            quoted = not quoted
        elif char == "." and not quoted:
            parts.append(current)
            current = ""
        else:
            current += char
        index += 1
    return [*parts, current]


def logical_type_of(data_type: pa.DataType) -> str:
    """Type string under which the format stores an Arrow type.

    Raises
    ------
    UnsupportedError
        The format has no such type.

    Examples
    --------
    >>> logical_type_of(pa.list_(pa.float32(), 4))
    'fixed_size_list:float:4'
    """
    types = pa.types
    for text, known in _PLAIN_BY_ID.get(data_type.id, ()):
        if known == data_type:
            return text
    if types.is_timestamp(data_type):
        return f"timestamp:{data_type.unit}:{data_type.tz or '-'}"
    if types.is_decimal128(data_type) or types.is_decimal256(data_type):
        return f"decimal:{data_type.bit_width}:{data_type.precision}:{data_type.scale}"
    if types.is_fixed_size_binary(data_type):
        return f"fixed_size_binary:{data_type.byte_width}"
    if types.is_fixed_size_list(data_type):
        return f"fixed_size_list:{_item_type_of(data_type.value_field)}:{data_type.list_size}"
    if types.is_dictionary(data_type):
        return f"dict:{logical_type_of(data_type.value_type)}:{logical_type_of(data_type.index_type)}:false"
    if types.is_struct(data_type):
        return "struct"
    if types.is_list(data_type) or types.is_large_list(data_type):
        kind, item = "list" if types.is_list(data_type) else "large_list", data_type.value_type
        item = item.storage_type if isinstance(item, pa.BaseExtensionType) else item
        return kind + (".struct" if types.is_struct(item) else "")
    if types.is_string_view(data_type) or types.is_binary_view(data_type):
        return "string" if types.is_string_view(data_type) else "binary"
    advice = ""
    if types.is_list_view(data_type) or types.is_large_list_view(data_type):
        advice = ": cast the column to lists, as with table.cast and pyarrow.list_"
    elif types.is_run_end_encoded(data_type):
        advice = ": cast the column with pyarrow.compute.run_end_decode"
    raise UnsupportedError(f"the Lance format has no type for {data_type}{advice}", feature=str(data_type))


def _item_type_of(field: pa.Field) -> str:
    """Type string of the items of a fixed-size list, of which bfloat16 alone keeps its extension type."""
    is_extension = isinstance(field.type, pa.BaseExtensionType)
    name = (field.metadata or {}).get(EXTENSION_KEY.encode(), b"").decode("utf-8", "replace")
    kind = field.type.storage_type if is_extension else field.type
    if (field.type.extension_name if is_extension else name) == _BFLOAT16 and kind == pa.binary(2):
        return _BFLOAT16
    return logical_type_of(field.type)
