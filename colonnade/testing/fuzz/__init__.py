"""Random feature-column models, asked of TensorFlow and of every backend: `python -m colonnade.testing.fuzz`."""
