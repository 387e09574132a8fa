"""The gpu backend: all columns of a program in one Triton launch."""
