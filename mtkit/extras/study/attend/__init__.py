"""Show attention as a heat map or a web page, and measure how well it explains the output."""
