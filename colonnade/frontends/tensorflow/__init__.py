"""The TensorFlow frontend: reads SavedModels, without TensorFlow."""
