"""The tests; folders mirror the package. ``make check`` runs the quick ones, ``make test`` all of them."""
