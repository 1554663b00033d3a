"""A synchronous grammar of English and Korean: it draws a meaning and says it in both languages."""
