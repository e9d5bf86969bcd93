"""One data file: opening it, and decoding a column into blocks, without Arrow and threads."""

from __future__ import annotations

from typing import Any

import numpy as np

import lancecy
from lancecy.file.open import opening
from lancecy.rows import RowSelection
from lancecy.session import Session
from lancecy.store.reads import run

from .scale import table_path

COLUMNS = ("id", "k", "cat", "s", "flag")


class _OneFile:
    """The first data file of the seven-column table."""

    timeout = 300

    def setup_cache(self) -> str:
        return table_path("scalars")

    def open(self, path: str) -> None:
        dataset = lancecy.dataset(path)
        context = dataset.context
        part = context.files(context.fragments[0].id).parts[0]
        self.session = Session(threads=1)
        self.source: Any = part.source
        self.reader = part.reader
        self.schema = dataset.lance_schema
        self.file = context.fragments[0].files[0]


class Open(_OneFile):
    """From bytes to a reader: footer, metadata, page table."""

    def setup(self, path: str) -> None:
        self.open(path)

    def time_open(self, path: str) -> None:
        run(
            opening(
                self.source,
                field_ids=self.file.fields,
                fields=self.schema.fields,
                major=self.file.major,
                minor=self.file.minor,
            ),
            self.session.fetch,
        )


class Decode(_OneFile):
    """One column into a block."""

    params = COLUMNS
    param_names = ("column",)

    def setup(self, path: str, column: str) -> None:
        self.open(path)
        self.field = next(field for field in self.schema.fields if field.name == column)
        self.every = RowSelection.all(self.reader.num_rows)
        some = np.random.default_rng(13).integers(0, self.reader.num_rows, 1000)
        self.few = RowSelection.take(self.reader.num_rows, some.astype(np.int64))

    def time_all_rows(self, path: str, column: str) -> None:
        run(self.reader.read([self.field], self.every), self.session.fetch)

    def time_thousand_rows(self, path: str, column: str) -> None:
        run(self.reader.read([self.field], self.few), self.session.fetch)
