"""A server: translation for other programs and for people, over HTTP; one file per interface."""
