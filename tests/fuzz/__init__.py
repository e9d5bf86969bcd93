"""Coverage-guided fuzzing of every decoder and parser.

============  =================================================================================
``calls``     kernel calls as bytes and back
``targets``   the functions that eat bytes: one per kernel, one per parser
``seeds``     makes the committed seeds, from what reading the golden tables calls and parses
``build``     kernels with coverage and the address sanitizer, in ``build/fuzz``
``run``       one target under libFuzzer (atheris)
``all``       ``make fuzz``: every target in turn, with a table of what was run
============  =================================================================================

``tests/hostile/test_fuzz_replay.py`` runs every seed, and every crash ever found, on both sets of kernels.
"""
