"""What corpora hold, and what malice could put there: lines, files and tables, as plain data."""

from __future__ import annotations

import gzip
import json
import sys

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

INVALID: dict[str, bytes] = {
    "truncated 2 bytes": b"\xc3",
    "truncated 3 bytes": b"\xe2\x82",
    "truncated 4 bytes": b"\xf0\x9f\x98",
    "lone continuation": b"\x80",
    "many continuations": b"\xbf" * 9,
    "overlong slash": b"\xc0\xaf",
    "overlong line feed": b"\xc0\x8a",
    "overlong NUL, 3 bytes": b"\xe0\x80\x80",
    "surrogate": b"\xed\xa0\x80",
    "surrogate pair (CESU-8)": b"\xed\xa0\xbd\xed\xb8\x80",
    "beyond U+10FFFF": b"\xf4\x90\x80\x80",
    "5 bytes": b"\xf8\x88\x80\x80\x80",
    "0xFE": b"\xfe",
    "0xFF": b"\xff",
    "UTF-16": "\ufeffdog".encode("utf-16-le"),
    "Latin-1": "Bär größer".encode("latin-1"),
}
"""Bytes that are not UTF-8."""

VALID: dict[str, str] = {
    "NUL": "a\0b\0\0",
    "byte order mark inside": "a\ufeff b",
    "byte order mark alone": "\ufeff",
    "carriage returns": "a\rb\r\rc",
    "carriage return at the end": "a\r",
    "vertical tab, form feed": "a\vb\fc",
    "separators": "a\x1cb\x1dc\x1ed\x1fe",
    "next line": "a\x85b",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "tabs": "\ta\t\tb\t",
    "controls": "".join(map(chr, [*range(1, 9), *range(14, 28), *range(127, 160)])),
    "escape sequence": "\x1b[2J\x1b]0;title\x07",
    "bidi controls": "\u202eevil\u202c \u2066a\u2069 \u200fb\u061c",
    "zero width": "a\u200bb\u200cc\u200dd\u2060e",
    "zero width alone": "\u200b\u200d\u2060",
    "soft hyphens": "a\xadb\xad",
    "no-break spaces": "\xa0a\u202fb\u2007\u3000",
    "white space alone": " \t\u3000\x85\u2028\r\v ",
    "combining storm": "e" + "\u0301\u0323" * 500,
    "combining first": "\u0301a",
    "Hangul letters": "\u1112\u1161\u11ab" * 5,
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308",
    "flags and tags": "\U0001f1e9\U0001f1ea\U0001f1e9 \U0001f3f4\U000e0067\U000e0062\U000e007f",
    "unassigned": "\u0378\u0530\U0003ffff",
    "private use": "\ue000\uf8ff\U000f0000\U0010fffd",
    "noncharacters": "\ufdd0\ufffe\uffff\U0001fffe\U0010ffff",
    "replacement characters": "\ufffd\ufffd",
    "one character, eighteen letters": "\ufdfa" * 3,
    "SentencePiece's space": "▁ ▁a▁▁b ▁",
    "SentencePiece's boundary and unknown": "▅ ⁇ a▅b",
    "special subwords": "<s> a </s> <unk><pad> <mask>",
    "byte subwords": "<0x0A> <0x00><0xFF> <0xE2>a",
    "markup": "<b>a</b> &amp; &lt;s&gt; &#10; %0a \\n",
    "quotes and brackets": "\"a''b``[[(({{",
    "format": "{} {0} %s %d $HOME $(id) `id`",
    "numbers": "9" * 400 + " 1e999 -0 NaN Infinity",
    "words": "dog " * 400,
    "a word": "x" * 1_000,
    "dots": "." * 500,
    "sentence ends": "a. " * 60 + "。！？" * 20,
}
"""Lines that are UTF-8, without line feeds."""

LINES: dict[str, bytes] = {name: text.encode() for name, text in VALID.items()} | {
    f"{name}, {place}": before + raw + after
    for name, raw in INVALID.items()
    for place, before, after in (
        ("alone", b"", b""),
        ("at the start", b"", b"A dog."),
        ("inside", b"A d", b"og."),
        ("at the end", b"A dog", b""),
        ("after another", b"\xe2\x82", b""),
    )
}
"""Lines as bytes, without line feeds; those that are not UTF-8, with the fault in every place."""

ALL = b"".join(line + b"\n" for line in LINES.values())

FILES: dict[str, bytes] = {
    "every line": ALL,
    "every line, Windows": ALL.replace(b"\n", b"\r\n"),
    "every line backwards, unended": ALL[::-1],
    "empty": b"",
    "a line feed": b"\n",
    "unended": b"A dog.\nWhy?",
    "byte order mark": b"\xef\xbb\xbfA dog.\n\xef\xbb\xbfWhy?\n",
    "byte order mark alone": b"\xef\xbb\xbf",
    "blank lines": b"\n" * 1_500,
    "blank among others": b"\nA dog.\n \t\n\nWhy?\n\r\n",
    "old Macintosh": b"A dog.\rWhy?\rIt rains.",
    "UTF-16": "A dog.\nWhy?\n".encode("utf-16"),
    "UTF-32": "A dog.\nWhy?\n".encode("utf-32"),
    "gzip": gzip.compress(b"A dog.\n" * 9, mtime=0),
    "zeros": bytes(3_000),
    "all bytes": bytes(range(256)) * 4,
    "HTML": b"<!DOCTYPE html>\n<html><body>404</body></html>\n",
}
"""Whole files of text."""

LARGE: dict[str, bytes] = {
    "30,000 blank lines": b"\n" * 30_000,
    "100 kB without a space": b"x" * 100_000 + b"\nWhy?\n",
    "100 kB of words": (b"dog " * 49 + b"ant. ") * (100_000 // 201) + b"\nWhy?\n",
    "100 kB of one character": "\u0301".encode() * (100_000 // 2) + b"\nWhy?\n",
}
"""Files that would take minutes if anything took the square of their length."""

DEEP = "[" * 100_000 + "]" * 100_000
NESTED = '{"a": ' * 400 + "1" + "}" * 400

TABLES: dict[str, tuple[str, bytes, str | None]] = {
    "quotes are text": ("t.tsv", b'"A dog\tEin Hund"\n"Why?"\t"""\n', None),
    "more columns than are used": ("t.tsv", b"A dog.\tEin Hund.\tx\n", None),
    "blank lines": ("t.tsv", b"\nA dog.\tEin Hund.\n \n\n", None),
    "Windows": ("t.tsv", b"\xef\xbb\xbfA dog.\tEin Hund.\r\n", None),
    "one column": ("t.tsv", b"a\tb\na b\n", r"t\.tsv:2: columns A and B .* has only 1"),
    "no table": ("t.tsv", ALL, r"t\.tsv:1: columns A and B"),
    "JSON strings of everything": (
        "t.jsonl",
        b"".join(json.dumps({"s": a, "t": "x"}).encode() + b"\n" for a in VALID.values()),
        None,
    ),
    "escaped line feeds and halves of surrogates": (
        "t.jsonl",
        rb'{"s": "\ud83d\n\u0000 a\r\n", "t": "\udc00\u2028x", "n": NaN}' + b"\n\n",
        None,
    ),
    "keys twice": ("t.jsonl", b'{"s": 1, "s": "a", "t": "b"}\n', None),
    "no object": ("t.jsonl", b'["a", "b"]\n', r"t\.jsonl:1: no column 's'; choose from none"),
    "half an object": ("t.jsonl", b'{"s": "a", "t": "b"}\n{"s": "a"', r"t\.jsonl:2: not JSON"),
    "a list over lines": ("t.jsonl", b'[\n{"s": "a", "t": "b"}\n]\n', r"t\.jsonl:1: not JSON"),
    "a missing field": (
        "t.jsonl",
        b'{"s": "a", "u": {"t": 1}}\n',
        r"jsonl:1: no column 't'; choose from s, u\.t$",
    ),
    "null": ("t.jsonl", b'{"s": null, "t": "b"}\n', None),
    "NaN": ("t.jsonl", b'{"s": "a", "t": NaN}\n', r"jsonl:1: column 't' holds 'nan', not text"),
    "a list": ("t.jsonl", b'{"s": ["a"], "t": "b"}\n', r"""column 's' holds "\['a'\]", not text"""),
    "a huge integer": (
        "t.jsonl",
        b'{"s": "a", "t": "b", "n": ' + b"9" * 5_000 + b"}\n",
        r"t\.jsonl:1: not JSON \(Exceeds the limit",
    ),
    "deep lists": ("t.jsonl", DEEP.encode(), r"t\.jsonl:1: not JSON \(maximum recursion"),
    "deep objects": ("t.jsonl", NESTED.encode(), r"t\.jsonl:1: no column 's'; choose from a\.a$"),
    "many columns": (
        "t.jsonl",
        json.dumps({f"key{i}": i for i in range(10_000)}).encode(),
        r"t\.jsonl:1: no column 's'; choose from key0, .*key19$",
    ),
    "invalid UTF-8": ("t.jsonl", b'{"s": "a\xff", "t": "\xc3"}\n', None),
    "a key that is an escape sequence": (
        "t.jsonl",
        rb'{"\u001b[2J\u202e": 1}',
        r"t\.jsonl:1: no column 's'; choose from \\x1b\[2J\\u202e$",
    ),
}
"""A table's name, its content, and what is said of it, or None where it is read."""

_TEXT = b"".join(b"line %d\n" % (i * i) for i in range(20_000))
_SOUND = gzip.compress(_TEXT, mtime=0)

ZIPPED: dict[str, tuple[bytes, str]] = {
    "cut short": (_SOUND[: len(_SOUND) // 2], r"x\.gz:\d{3,}: the gzip data is damaged"),
    "cut in the checksum": (_SOUND[:-3], r"x\.gz:\d{5}: the gzip data is damaged"),
    "header alone": (_SOUND[:10], r"x\.gz:1: the gzip data is damaged"),
    "garbage behind": (_SOUND + b"garbage", r"x\.gz:\d{5}: the gzip data is damaged"),
    "a bit flipped": (
        _SOUND[:9_000] + bytes([_SOUND[9_000] ^ 16]) + _SOUND[9_001:],
        r"x\.gz:\d+: the gzip data is damaged",
    ),
    "plain text": (b"A dog.\n", r"x\.gz:1: the gzip data is damaged.*\(Not a gzip"),
    "magic alone": (b"\x1f\x8b", r"x\.gz:1: the gzip data is damaged"),
    "empty": (b"", r"is empty"),
}
"""What is not, or not quite, a gzip file x.gz, and what is said of it."""

_SOUND_ZSTD = zstd.compress(_TEXT, options={zstd.CompressionParameter.checksum_flag: 1})

ZSTANDARD: dict[str, tuple[bytes, str]] = {
    "cut short": (_SOUND_ZSTD[: len(_SOUND_ZSTD) // 2], r"x\.zst:\d+: the zstd data is damaged"),
    "cut in the checksum": (_SOUND_ZSTD[:-3], r"x\.zst:\d{5}: the zstd data is damaged"),
    "header alone": (_SOUND_ZSTD[:6], r"x\.zst:1: the zstd data is damaged"),
    "garbage behind": (_SOUND_ZSTD + b"garbage", r"x\.zst:\d{5}: the zstd data is damaged"),
    "a bit flipped": (
        _SOUND_ZSTD[:9_000] + bytes([_SOUND_ZSTD[9_000] ^ 16]) + _SOUND_ZSTD[9_001:],
        r"x\.zst:\d+: the zstd data is damaged",
    ),
    "plain text": (b"A dog.\n", r"x\.zst:1: the zstd data is damaged"),
    "magic alone": (b"\x28\xb5\x2f\xfd", r"x\.zst:1: the zstd data is damaged"),
}
"""What is not, or not quite, a Zstandard file x.zst, and what is said of it."""
