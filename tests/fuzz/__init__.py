"""Coverage-guided fuzzing of every decoder and parser, and the suite under the sanitizers.

============  =================================================================================
``calls``     kernel calls as bytes and back
``targets``   the functions that eat bytes: one per kernel, one per parser
``rows``      two of them: row ids looked up, against the numbers written out
``tables``    one of them: a manifest and a data file, read as users read them
``seeds``     makes the committed seeds, from what reading the golden tables calls and parses
``build``     kernels for the sanitizers, in ``build/fuzz`` and ``build/asan``
``run``       one target under libFuzzer (atheris)
``all``       ``make fuzz``: every target in turn, with a table of what was run
``asan``      ``make asan``: the suite over sanitized kernels
============  =================================================================================

``tests/hostile/test_fuzz_replay.py`` runs every seed, and every crash ever found, on both sets of kernels.
"""
