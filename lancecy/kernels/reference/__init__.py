"""NumPy twins of the kernels: slow and obvious, to test the compiled ones against.

Every function has the signature, results and errors of the kernel of the same name in
:mod:`lancecy.kernels`, whose docstring describes both. The same tests run on both.
``LANCECY_KERNELS=reference`` selects the twins for a whole process, for instance to find
out whether a kernel causes a fault.

Each compiled module has a module here with the same name without the underscore.
"""
