"""Models of other programs and of the Hugging Face hub: import, export, cards."""
