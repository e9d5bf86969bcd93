"""The house rules as tests: style, types, layers, kernels, documentation, packaging."""
