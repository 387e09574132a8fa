"""Functions that run on the device. Their texts are put together into one module a kernel (`gpu/source.py`)."""
