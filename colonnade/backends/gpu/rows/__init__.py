"""The proof that rows of a batch do not meet: values, the arguments of a call, the ops and their rules."""
