"""The public functions and objects. They delegate: no reading, writing or committing is done here.

==============  ===========================================================================
``datasets``    :func:`~datasets.dataset`, :class:`~datasets.Dataset`, :class:`~datasets.LanceFragment`
``changes``     the methods of a dataset that change the table
``scanners``    :class:`~scanners.Scanner`: one scan, described and not yet run
``repairs``     ``repair``
``writers``     ``write_dataset``, ``write_fragments``, ``write_dask``, ``commit``
==============  ===========================================================================
"""
