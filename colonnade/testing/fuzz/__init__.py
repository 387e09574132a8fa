"""Random models, asked of TensorFlow and of every backend: `python -m colonnade.testing.fuzz`."""
