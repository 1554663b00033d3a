"""Every setting and its default; reading YAML; error messages for configs."""
