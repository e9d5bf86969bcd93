"""Random nested types: what a version of the format can hold, or every type of leaf at every depth."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

__all__ = ["Allowed", "Code", "Place", "plain", "random_field", "random_type"]


class Code(pa.ExtensionType):  # type: ignore[misc]
    """A registered type over numbers."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "tests.code")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"{}"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Code:
        return cls()


class Place(pa.ExtensionType):  # type: ignore[misc]
    """A registered type over structs, as that of points."""

    def __init__(self) -> None:
        super().__init__(pa.struct([pa.field("x", pa.float64(), False), ("y", pa.int32())]), "tests.place")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"place"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Place:
        return cls()


for extension in (Code(), Place()):
    pa.register_extension_type(extension)

LEAVES = (
    pa.int64(), pa.int32(), pa.int8(), pa.uint16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(),
    pa.binary(), pa.large_string(), pa.timestamp("us"), pa.decimal128(20, 3), pa.binary(5), pa.date32(), pa.null(),
)  # fmt: skip
NUMBERS = (
    *LEAVES[:7],
    pa.float16(),
    pa.uint64(),
    pa.duration("ms"),
    pa.decimal128(38, 4),
    pa.timestamp("s", "UTC"),
)
VARIED = (
    *LEAVES, *LEAVES[:8], pa.int16(), pa.uint8(), pa.uint32(), pa.uint64(), pa.float16(), pa.large_binary(),
    pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.duration("s"),
    pa.duration("ns"), pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("ns", "Europe/Paris"),
    pa.decimal128(38, 4), pa.decimal256(50, 3), pa.binary(16), pa.binary(300), pa.string_view(), pa.binary_view(),
    pa.json_(), pa.uuid(), pa.bool8(), pa.fixed_shape_tensor(pa.float32(), (2, 2)), pa.opaque(pa.binary(), "t", "v"),
    Code(), Place(),
)  # fmt: skip
KEYS = (pa.int8(), pa.uint8(), pa.int32(), pa.int64())
UNKNOWN = {b"ARROW:extension:name": b"tests.unknown", b"ARROW:extension:metadata": b"?"}


@dataclass(frozen=True)
class Allowed:
    """What a version of the format can hold and its reference writer writes, and how far types may vary.

    Attributes
    ----------
    nulls, struct_nulls, lists, maps, fixed_structs : bool
        Nulls at all; null structs; lists; maps; fixed-size lists of structs.
    required : float
        Share of the fields that allow no null.
    masked : bool
        Whether such a field may have some that lie under a null.
    varied : bool
        Whether leaves have all types, extension types and views among them.
    """

    nulls: bool = True
    struct_nulls: bool = True
    lists: bool = True
    maps: bool = True
    fixed_structs: bool = False
    required: float = 0.0
    masked: bool = False
    varied: bool = False

    @classmethod
    def by(cls, version: str) -> Allowed:
        """For ``"2.0"`` to ``"2.3"``, and ``"0.1"``, whose files have nulls in text only."""
        newer = version in ("2.2", "2.3")
        return cls(nulls=version != "0.1", struct_nulls=version not in ("0.1", "2.0"), maps=newer)


def random_field(rng: np.random.Generator, name: str, depth: int, allowed: Allowed) -> pa.Field:
    """A field whose type is nested at most ``depth`` deep."""
    kind = random_type(rng, depth, allowed)
    if not allowed.varied:
        return pa.field(name, kind)
    nullable = bool(rng.random() >= allowed.required) or pa.types.is_null(kind)
    is_unknown = not kind.num_fields and not isinstance(kind, pa.BaseExtensionType) and rng.random() < 0.05
    return pa.field(name, kind, nullable, UNKNOWN if is_unknown else None)


def random_type(rng: np.random.Generator, depth: int, allowed: Allowed) -> pa.DataType:
    """A type nested at most ``depth`` deep."""
    kinds = ["leaf", "dictionary", "vector"] + ["leaf"] * (2 * allowed.varied)
    if depth > 0:
        kinds += (["list", "list"] * allowed.lists) + ["struct", "struct"] + ["large_list"] * allowed.lists
        kinds += ["map"] * (allowed.maps and allowed.lists) + ["fixed"] * allowed.fixed_structs
    kind = rng.choice(kinds)
    if kind in ("list", "large_list", "map"):
        allowed = replace(allowed, fixed_structs=False)
        item = random_field(rng, "value" if kind == "map" else "item", depth - 1, allowed)
        if kind == "map":
            return pa.map_((pa.string(), pa.int32(), pa.int64())[rng.integers(0, 3)], item)
        return pa.list_(item) if kind == "list" else pa.large_list(item)
    if kind in ("struct", "fixed"):
        # No lists are in fixed-size lists of structs.
        inner = replace(allowed, lists=False, fixed_structs=False) if kind == "fixed" else allowed
        count = int(rng.integers(1, 4))
        made = pa.struct([random_field(rng, f"c{i}", depth - 1, inner) for i in range(count)])
        return made if kind == "struct" else pa.list_(made, int(rng.integers(1, 4)))
    if kind == "vector":
        item = (NUMBERS if allowed.varied else LEAVES[:7])[rng.integers(0, 7 + 5 * allowed.varied)]
        inner = pa.list_(item, int(rng.integers(1, 5)))
        return pa.list_(inner, 2) if rng.random() < 0.2 else inner
    if kind == "dictionary":
        value = (pa.string(), pa.int64(), pa.binary())[rng.integers(0, 3)]
        return pa.dictionary(
            KEYS[rng.integers(0, len(KEYS))], value, bool(allowed.varied and rng.random() < 0.2)
        )
    leaves = VARIED if allowed.varied else LEAVES
    return leaves[rng.integers(0, len(leaves))]


def plain(kind: pa.DataType) -> pa.DataType:
    """The type that is read of one that was written: views are text and bytes, dictionaries have no order."""
    types = pa.types
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, kind.value_type)
    if types.is_string_view(kind):
        return pa.string()
    if types.is_binary_view(kind):
        return pa.binary()
    if isinstance(kind, pa.BaseExtensionType) or not kind.num_fields:
        return kind
    children = [kind.field(i).with_type(plain(kind.field(i).type)) for i in range(kind.num_fields)]
    if types.is_struct(kind):
        return pa.struct(children)
    if types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(plain(kind.item_type)))
    if types.is_fixed_size_list(kind):
        return pa.list_(children[0], kind.list_size)
    return pa.list_(children[0]) if types.is_list(kind) else pa.large_list(children[0])
