"""Kernels of training; each file is functions and constants alone, and is compiled as text (`gpu/module.py`)."""
