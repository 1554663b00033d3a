"""The architectures, which all implement the classes of `interfaces`."""
