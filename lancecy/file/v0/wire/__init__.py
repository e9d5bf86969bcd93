"""Protobuf messages of 0.1 files: ``decode`` reads them, ``encode`` writes them."""
