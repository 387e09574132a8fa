"""From ids to distinct keys, and from looked-up rows to pooled outputs and back."""
