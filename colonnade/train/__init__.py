"""Training: features, tables, optimizers; independent of how programs are served."""
