"""Updates of a table's string maps: configuration, table metadata, schema metadata and column metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lancecy.changes.base import Change
from lancecy.changes.options import check_texts
from lancecy.keyword_options import checked_arguments
from lancecy.table.operations import MapUpdate, UpdateConfig

__all__ = ["MetadataUpdates"]


class MetadataUpdates(Change):
    """The dataset methods that change metadata."""

    @checked_arguments()
    def update_config(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the configuration of the table.

        Parameters
        ----------
        values : mapping of str to str or None
            None removes the key.
        replace : bool
            Whether to remove all other keys.

        Returns
        -------
        dict
            The new configuration.

        Raises
        ------
        ConflictError
            Another writer changed one of the keys since this version.
        """
        self._change(UpdateConfig(config=_update(values, replace)))
        return dict(self._snapshot.manifest.config)

    @checked_arguments()
    def delete_config_keys(self, keys: Iterable[str]) -> None:
        """Remove keys from the configuration of the table; missing keys are ignored.

        Parameters
        ----------
        keys : iterable of str
        """
        self.update_config(dict.fromkeys(keys))

    @checked_arguments()
    def update_metadata(self, values: Mapping[str, str | None], *, replace: bool = False) -> dict[str, str]:
        """Change the free-form metadata of the table; as :meth:`update_config`.

        Parameters
        ----------
        values : mapping of str to str or None
        replace : bool
        """
        self._change(UpdateConfig(table_metadata=_update(values, replace)))
        return dict(self._snapshot.manifest.table_metadata)

    @checked_arguments()
    def update_schema_metadata(
        self, values: Mapping[str, str | None], *, replace: bool = False
    ) -> dict[str, str]:
        """Change the metadata of the Arrow schema; as :meth:`update_config`.

        Parameters
        ----------
        values : mapping of str to str or None
        replace : bool
        """
        self._change(UpdateConfig(schema_metadata=_update(values, replace)))
        return {key: value.decode(errors="replace") for key, value in self._snapshot.schema.metadata.items()}

    @checked_arguments()
    def replace_schema_metadata(self, new_metadata: Mapping[str, str]) -> None:
        """Replace the metadata of the Arrow schema.

        Parameters
        ----------
        new_metadata : mapping of str to str
        """
        self.update_schema_metadata(new_metadata, replace=True)

    @checked_arguments()
    def update_field_metadata(
        self, field_updates: Mapping[str, Mapping[str, str | None]], *, replace: bool = False
    ) -> None:
        """Change the metadata of columns; as :meth:`update_config`.

        Parameters
        ----------
        field_updates : mapping of column to mapping of str to str or None
            Column paths; struct members are separated by dots.
        replace : bool

        Raises
        ------
        ColumnNotFoundError
            A column does not exist.
        TypeError
            The path of a column is no text, or its metadata no mapping of texts.
        SchemaError
            The update would change the table's key.
        """
        for column, values in field_updates.items():
            if not isinstance(column, str) or not isinstance(values, Mapping):
                raise TypeError(
                    "field_updates has mappings by the paths of columns, such as {'a': {'unit': 'm'}}; "
                    f"{column!r} is to become {values!r}"
                )
        schema = self._snapshot.schema
        ids = {name: schema.path(schema.resolve(name))[-1].id for name in field_updates}
        updates = {ids[name]: _update(values, replace) for name, values in field_updates.items()}
        self._change(UpdateConfig(field_metadata=updates))

    @checked_arguments()
    def replace_field_metadata(self, field_name: str, new_metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a column.

        Parameters
        ----------
        field_name : str
        new_metadata : mapping of str to str
        """
        self.update_field_metadata({field_name: new_metadata}, replace=True)


def _update(values: Mapping[str, str | None], replace: bool) -> MapUpdate:
    check_texts({key: "" if value is None else value for key, value in values.items()})
    return MapUpdate(dict(values), replace)
