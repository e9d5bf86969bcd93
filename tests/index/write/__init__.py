"""The files of indices."""
