"""From the fields of a batch to the ids, weights and numbers of every feature."""
