"""DataOverlay: lays new values of some rows over those of fragments. Read and shown, and not made.

Source: table sheet, section 4.2.
"""

from __future__ import annotations

from lancecy.limits import Limits
from lancecy.proto import table_pb2, transaction_pb2
from lancecy.records import dataclass
from lancecy.table.manifest import DataFile
from lancecy.table.operations.foreign import Foreign
from lancecy.table.wire.fragment import decode_fragment, encode_data_file

__all__ = ["DataOverlay", "OverlayFile"]


@dataclass(frozen=True, slots=True)
class OverlayFile:
    """New values of some rows and columns of a fragment.

    Attributes
    ----------
    file : DataFile
    offsets : bytes or tuple of bytes
        The rows, as portable Roaring bitmaps: one for all columns of the file, or one for each.
    committed_version : int
        Version that has it; 0 before the commit.
    """

    file: DataFile
    offsets: bytes | tuple[bytes, ...]
    committed_version: int = 0


@dataclass(frozen=True, slots=True)
class DataOverlay(Foreign):
    """Lay new values of some rows over those of fragments.

    Attributes
    ----------
    groups : tuple of (int, tuple of OverlayFile)
        Fragments, and what is laid over each, oldest first.
    """

    kinds = ("overlay",)

    groups: tuple[tuple[int, tuple[OverlayFile, ...]], ...] = ()

    def encode(self, message: transaction_pb2.Transaction, made: table_pb2.Manifest) -> None:
        message.data_overlay.SetInParent()
        for fragment, overlays in self.groups:
            group = message.data_overlay.groups.add(fragment_id=fragment)
            group.overlays.extend(map(_encode_overlay, overlays))

    @classmethod
    def decode(cls, message: transaction_pb2.Transaction, limits: Limits) -> DataOverlay:
        groups = tuple(
            (group.fragment_id, tuple(_decode_overlay(overlay, limits) for overlay in group.overlays))
            for group in message.data_overlay.groups
        )
        return cls("overlay", rewritten=frozenset(fragment for fragment, _ in groups), groups=groups)


def _encode_overlay(overlay: OverlayFile) -> table_pb2.DataOverlayFile:
    message = table_pb2.DataOverlayFile(
        data_file=encode_data_file(overlay.file), committed_version=overlay.committed_version
    )
    if isinstance(overlay.offsets, bytes):
        message.shared_offset_bitmap = overlay.offsets
    else:
        message.field_coverage.SetInParent()
        message.field_coverage.offset_bitmaps.extend(overlay.offsets)
    return message


def _decode_overlay(message: table_pb2.DataOverlayFile, limits: Limits) -> OverlayFile:
    holder = table_pb2.DataFragment(files=[message.data_file])
    sparse = message.WhichOneof("coverage") == "field_coverage"
    return OverlayFile(
        decode_fragment(holder, {}, limits).files[0],
        tuple(message.field_coverage.offset_bitmaps) if sparse else message.shared_offset_bitmap,
        message.committed_version,
    )
