"""What the text of a pair says about it: the rules that `mtkit check` counts and may drop by."""
