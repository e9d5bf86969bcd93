"""Which feature flags a reader accepts."""

from __future__ import annotations

import pytest

from lancecy.errors import FormatError, UnsupportedError
from lancecy.table.flags import check_readable, check_writable, describe
from tests.helpers.folded import folded

ACCEPTED = (1, 2, 4, 8, 16, 32, 128, 512, 1024)
REFUSED = (64, 2048, 4096, 8192, 16384, 65536, 1 << 17, 1 << 40, 1 << 63)


@folded("flag", ACCEPTED)
def test_known_flag_is_accepted(flag: int) -> None:
    check_readable(flag, flag)
    check_readable(0, flag)


@folded("flag", REFUSED)
def test_other_flag_is_refused_by_name(flag: int) -> None:
    with pytest.raises(UnsupportedError, match=str(flag)) as caught:
        check_readable(flag | 3, flag | 3)
    assert caught.value.feature == describe(flag)[0]


@folded("flag", REFUSED)
def test_flag_for_writers_alone_does_not_stop_a_reader(flag: int) -> None:
    check_readable(1, flag)


def test_several_flags_are_all_named() -> None:
    with pytest.raises(UnsupportedError, match=r"64 \(data overlay files\), 131072 \(unknown\)"):
        check_readable(64 | 131072 | 1, 0)


def test_flag_of_mixed_file_versions_stands_in_both_words_or_none() -> None:
    check_readable(256, 256)
    for reader, writer in ((256, 0), (0, 256), (257, 1)):
        with pytest.raises(FormatError, match="256"):
            check_readable(reader, writer)


def test_flag_of_field_ids_is_for_writers_only() -> None:
    check_readable(0, 32768)
    with pytest.raises(FormatError, match="32768"):
        check_readable(32768, 32768)


@pytest.mark.parametrize("flag", [64, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 1 << 40])
def test_table_with_a_feature_that_would_be_lost_is_not_written(flag: int) -> None:
    with pytest.raises(UnsupportedError, match=str(flag)):
        check_writable(0, flag)


def test_table_of_known_features_is_written() -> None:
    check_writable(0, 0)
    check_writable(1 | 2 | 4 | 16 | 256, 1 | 2 | 8 | 16 | 32 | 256)


def test_words_that_contradict_each_other_are_not_written() -> None:
    with pytest.raises(FormatError, match="not for both"):
        check_writable(256, 0)
