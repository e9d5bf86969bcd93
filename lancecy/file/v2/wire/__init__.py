"""Protobuf messages of 2.x containers: ``decode`` reads them, ``encode`` writes them."""
