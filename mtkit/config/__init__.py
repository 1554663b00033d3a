"""Every setting and its default; YAML to settings; what is wrong with a setting, in one line."""
