"""Training on a CUDA device: tables, keys and updates as Triton kernels, which the CPU interprets."""
