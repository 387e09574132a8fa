"""Short parts of the dense rest as one call: a list of op codes over rows of float32, run by compiled loops.

`lower` makes tapes of instructions, `steps` says what each becomes, `kernels` and `products` run them, `words` says how
a tape lies in memory.
"""
