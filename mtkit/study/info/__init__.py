"""What a run, model or artifact is: in words and numbers, or as a drawing."""
