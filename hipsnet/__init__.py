"""hipsnet: server-centric networks for distributed training."""
