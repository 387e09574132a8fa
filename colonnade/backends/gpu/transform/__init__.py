"""The transform of features on the device: a few launches for all features of a batch, whatever their number."""
