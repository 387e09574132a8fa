"""Training: features of a batch, dynamic tables with their optimizers, pooling and its gradients."""
