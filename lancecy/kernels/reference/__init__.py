"""The kernels once more in plain NumPy: slow, obvious, and checked against the compiled ones.

Every function has the signature, results and errors of its namesake in
:mod:`lancecy.kernels`, whose docstrings describe both. The same tests run on the two,
which is how the compiled code is known to be right. Choose them for a whole process
with ``LANCECY_KERNELS=reference``, for instance to find out whether a kernel is to blame.

There is one module for each compiled one, of the same name without the underscore.
"""
