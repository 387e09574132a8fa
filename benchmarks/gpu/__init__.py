"""Benchmarks of the gpu backend: `python -m benchmarks.gpu CASE ... --out DIR` on a machine with a CUDA device.

Models come as skeletons (the program without tables and parameters), filled with random weights where they run, so
that nothing large need travel. `--dry` runs every case at a tiny size with the cpu backend in place of the gpu one.
"""
