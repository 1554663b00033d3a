"""Tables, spreadsheets and translation memories as corpora; a column of a table translated."""
