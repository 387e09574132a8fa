"""What everything else is made of: dims, facts, expressions, constants, strings, packed batches, tensor files."""
