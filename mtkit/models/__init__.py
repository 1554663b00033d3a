"""The architectures, each behind the contract of `halves`."""
