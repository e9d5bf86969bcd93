"""What files and tables contain, for people: figures, texts, pictures and reports of damage.

==================  ==========================================================================
``files``           :func:`~lancecy.inspect`: how one data file stores its columns
``layout``          bytes of a table by fragment and column, as numbers and as a plot
``stats``           statistics of a table from its metadata
``diff``            differences between two versions
``display``         text and HTML of datasets and scans
``verification``    reads a whole table and reports damage
==================  ==========================================================================
"""
