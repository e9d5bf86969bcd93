"""Pages that differ in their number of items: their layouts are those of a parser that reads each encoding whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancecy.encodings.model.layouts import MiniBlock
from lancecy.errors import LanceError
from lancecy.file.v2 import meta
from lancecy.file.v2.meta import SpecCache
from lancecy.file.v2.wire import parse_spec
from lancecy.limits import DEFAULT_LIMITS
from lancecy.store.cache import ByteCache
from tests.helpers.pages21 import PAGE, constant_page, flat, full_zip, inline, message, mini_block, variable

VERSION = (2, 1)


def encoding(layout: bytes) -> bytes:
    return message(1, PAGE.encode()) + message(2, layout)


def outcome(find: Any, stored: bytes) -> Any:
    try:
        return find(stored)
    except LanceError as error:
        return type(error), str(error)


def same(specs: SpecCache, stored: bytes) -> bool:
    whole = outcome(lambda data: parse_spec(data, VERSION, 2, DEFAULT_LIMITS), stored)
    return bool(outcome(lambda data: specs.find(data, 2), stored) == whole)


@pytest.mark.parametrize("cache", [None, ByteCache(1 << 20)])
def test_pages_of_other_lengths_share_their_shape(cache: ByteCache | None) -> None:
    specs = SpecCache(VERSION, DEFAULT_LIMITS, cache)
    for large in (False, True):
        found = [
            specs.find(encoding(mini_block(inline(32), items, large=large)), 2) for items in range(128, 140)
        ]
        assert [page.num_items for page in found if isinstance(page, MiniBlock)] == [*range(128, 140)]
        assert len({id(page.shared_shape) for page in found[2:] if isinstance(page, MiniBlock)}) == 1
        assert all(page.is_large == large for page in found if isinstance(page, MiniBlock))


def test_pages_of_any_length_are_parsed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    specs, parsed = SpecCache(VERSION, DEFAULT_LIMITS), []

    def counted(stored: bytes, *about: Any) -> Any:
        parsed.append(stored)
        return parse_spec(stored, *about)

    monkeypatch.setattr(meta, "parse_spec", counted)
    for items in range(1000, 1300):
        specs.find(encoding(mini_block(flat(64), items)), 2)
    assert len(parsed) == 2


LAYOUTS = st.sampled_from(
    [
        lambda items: mini_block(flat(64), items),
        lambda items: mini_block(inline(32), items, (3,), definition=flat(16), large=True),
        lambda items: mini_block(variable(), items, num_buffers=2),
        lambda items: mini_block(inline(8), items, dictionary=variable(), num_dictionary_items=items),
        lambda items: full_zip(flat(64), items, bits=64),
        lambda items: constant_page((3,), rep=None, definition=flat(16), num_def=items),
        # Bytes that look like a number of items, in another field and behind it.
        lambda items: mini_block(flat(64), 72) + message(15, bytes([0x48, items & 0x7F])),
        lambda items: message(1, mini_block(flat(64), 9)[2:] + bytes([0x48, items & 0x7F, 0x48, 3])),
    ]
)
ITEMS = st.one_of(
    st.integers(0, 300), st.sampled_from([1 << 14, 1 << 47, 1 << 48, (1 << 48) + 1, (1 << 64) - 1])
)


@given(st.lists(st.tuples(LAYOUTS, ITEMS), min_size=1, max_size=4), st.data())
def test_any_bytes_are_read_as_a_parser_of_the_whole_does(pages: list[Any], data: st.DataObject) -> None:
    specs = SpecCache(VERSION, DEFAULT_LIMITS)
    for layout, items in pages:
        stored = bytearray(encoding(layout(items)))
        assert same(specs, bytes(stored))
        for place in data.draw(st.lists(st.integers(1, min(12, len(stored))), max_size=2)):
            stored[-place] = data.draw(st.sampled_from([0, 1, 0x48, 0x50, 0x7F, 0x80, 0xFF]))
        assert same(specs, bytes(stored))
