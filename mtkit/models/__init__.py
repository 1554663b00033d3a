"""The architectures, each behind the contracts of `interfaces`."""
