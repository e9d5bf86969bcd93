"""Protobuf messages of 2.0 pages: ``decode`` parses them to specs, ``encode`` makes them from specs."""
