"""What every key-value store of manifests promises; a test module inherits the class and gives it ``items``."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

from lancecy.store.key_values import ManifestItem, ManifestKeyValue

__all__ = ["KeyValueContract", "final", "staged"]


def staged(version: int, writer: int = 0) -> ManifestItem:
    """The item of a version that is committed and not finished."""
    path = f"_versions/{(1 << 64) - 1 - version:020d}.manifest-7b1c2e9e-0000-4000-8000-{writer:012d}"
    return ManifestItem(path, 1000 + writer)


def final(version: int, size: int | None = 1000) -> ManifestItem:
    """The item of a finished version."""
    return ManifestItem(f"_versions/{(1 << 64) - 1 - version:020d}.manifest", size)


class KeyValueContract:
    """Tests over the fixture ``items``: an empty store, which the subclass defines."""

    def test_table_without_items_has_none(self, items: ManifestKeyValue) -> None:
        assert items.get("bucket/t", 1) is None
        assert items.latest("bucket/t") is None
        assert items.above("bucket/t") == []

    def test_items_are_found_in_order_of_their_numbers(self, items: ManifestKeyValue) -> None:
        for version in (9, 100, 10, 2):
            assert items.put_if_absent("t", version, final(version))
        assert items.latest("t") == (100, final(100))
        assert items.above("t") == [(version, final(version)) for version in (2, 9, 10, 100)]
        assert items.above("t", 9) == [(10, final(10)), (100, final(100))]
        assert items.get("t", 9) == final(9)
        assert items.get("t", 3) is None

    def test_item_is_put_once(self, items: ManifestKeyValue) -> None:
        assert items.put_if_absent("t", 1, staged(1))
        assert not items.put_if_absent("t", 1, final(1))
        assert items.get("t", 1) == staged(1)

    def test_item_is_replaced_if_it_is_the_expected_one(self, items: ManifestKeyValue) -> None:
        assert not items.put_if("t", 1, final(1), staged(1))
        assert items.get("t", 1) is None
        items.put_if_absent("t", 1, staged(1))
        assert not items.put_if("t", 1, final(1), staged(1, 2))
        assert items.get("t", 1) == staged(1)
        assert items.put_if("t", 1, final(1), staged(1))
        assert not items.put_if("t", 1, final(1, 3), staged(1))
        assert items.get("t", 1) == final(1)

    def test_size_may_be_unknown(self, items: ManifestKeyValue) -> None:
        assert items.put_if_absent("t", 1, final(1, None))
        assert items.get("t", 1) == final(1, None)
        assert items.put_if("t", 1, final(1, 5), final(1))
        assert items.put_if("t", 1, final(1, None), final(1))
        assert items.latest("t") == (1, final(1, None))

    def test_tables_are_apart(self, items: ManifestKeyValue) -> None:
        for table in ("t", "t/tree/a", "T", "t2", "s3://bucket/dir with spaces/ä%20'\";--"):
            assert items.put_if_absent(table, len(table), final(len(table)))
            assert items.above(table) == [(len(table), final(len(table)))]
        assert items.latest("t/tree") is None

    def test_deleted_items_are_gone(self, items: ManifestKeyValue) -> None:
        for version in range(1, 61):
            items.put_if_absent("t", version, final(version))
        for _ in range(2):
            items.delete("t", [*range(1, 55), 77])
            assert [version for version, _ in items.above("t")] == list(range(55, 61))
        assert items.put_if_absent("t", 1, staged(1))

    def test_detached_versions_are_found_by_their_number_alone(self, items: ManifestKeyValue) -> None:
        detached = (1 << 63) + 12345
        assert items.put_if_absent("t", detached, ManifestItem(f"_versions/d{detached}.manifest", 7))
        assert items.put_if_absent("t", 5, final(5))
        assert items.latest("t") == (5, final(5))
        assert items.above("t") == [(5, final(5))]
        assert items.get("t", detached) == ManifestItem(f"_versions/d{detached}.manifest", 7)

    def test_one_of_many_writers_puts_each_item(self, items: ManifestKeyValue) -> None:
        for version in range(1, 6):
            with ThreadPoolExecutor(8) as pool:
                won = list(pool.map(lambda n, v=version: items.put_if_absent("t", v, staged(v, n)), range(8)))
            assert won.count(True) == 1
            assert items.get("t", version) == staged(version, won.index(True))

    def test_one_of_many_finishers_replaces_an_item(self, items: ManifestKeyValue) -> None:
        items.put_if_absent("t", 1, staged(1))
        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(lambda n: items.put_if("t", 1, final(1, n), staged(1)), range(1, 9)))
        assert done.count(True) == 1
        assert items.get("t", 1) == final(1, 1 + done.index(True))

    def test_pickled_store_has_the_items(self, items: ManifestKeyValue) -> None:
        items.put_if_absent("t", 1, final(1))
        copy: ManifestKeyValue = pickle.loads(pickle.dumps(items))
        assert copy.get("t", 1) == final(1)
