"""Every setting and its default, YAML, what is wrong in it; where runs lie and what made them."""
