"""The demo: a configuration and a small English-Korean corpus, with the grammar that wrote it.

The grammar derives each sentence pair from one meaning, so that it also knows which word of one
side renders which word of the other; `python -m mtkit.demo.generate` writes the corpus again.
"""
