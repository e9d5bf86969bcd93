"""What files and tables contain, for people: figures, texts, pictures and reports of damage.

==================  ==========================================================================
``files``           :func:`~lancecy.inspect`: how one data file stores its columns
``sizes``           statistics of a table from its metadata; bytes by fragment and column, as numbers
                    and as a plot
``diff``            differences between two versions
``display``         text and HTML of datasets and scans
``verification``    reads a whole table and reports damage
==================  ==========================================================================
"""
