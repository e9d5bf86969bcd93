"""Generated protobuf code, committed and never edited: ``protos/generate.py`` writes it from ``protos/*.proto``.

Only modules named ``*_wire`` import it.
"""
