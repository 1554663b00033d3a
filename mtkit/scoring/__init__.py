"""The quality of translations: metrics with signatures and confidence intervals."""
