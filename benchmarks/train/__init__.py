"""The steps of training an embedding layer beside torch's, on one thread."""
