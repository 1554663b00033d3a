"""The architectures, each behind the contract of `base`."""
