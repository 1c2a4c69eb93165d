"""A hundred strings that are not plain words."""

EMOJI = ["😀", "👍🏽", "👩\u200d👩\u200d👧\u200d👦", "🇩🇪", "❤️", "☎", "♫", "1️⃣"]
SCRIPTS = [
    "寿司",
    "東京タワー",
    "한국어",
    "नमस्ते",
    "สวัสดี",
    "Привет",
    "Ωμέγα",
    "שלום",
    "مرحبا",
    "გამარჯობა",
    "ሰላም",
    "ᏣᎳᎩ",
]
SCRIPTS += ["ꙮ", "𝔥𝔢𝔩𝔩𝔬", "﷽"]
CONTROL = [
    "\x00",
    "a\x00b",
    "\x1b[31mred",
    "\x7f",
    "\u200b",
    "\u200bcat\u200b",
    "\ufeffcat",
    "\u202ecat\u202c",
    "\x85",
    "\ufffd",
]
SPACES = ["", " ", "\t\n", "\u00a0", "\u3000cat\u3000", "cat\tdog", "cat\ndog", "  cat  dog  "]
PUNCTUATION = [
    "!",
    "?!",
    "...",
    "…",
    "“”",
    "--",
    "—",
    "()",
    "'",
    "’’",
    "-'-",
    "«»",
    "¿",
    "&",
    "%",
    "$",
    "#",
    "\\",
    "<b>",
    "|",
]
MARKS = ["cafe\u0301", "Z\u0351\u036b\u0343algo", "\u0301", "n\u0303o", "Å", "ﬁsh", "Ⅷ", "½", "x²", "ｃａｔ", "ẞ", "ŉ"]
LONG = ["a" * 10_000, "ab" * 40, "-".join(["cat"] * 50), "1" * 1000, "é" * 500, "A." * 60, "'" * 300]
WORDS = [
    "I'M",
    "rock-n-roll",
    "O’Neill’s",
    "x",
    "X",
    "'n'",
    "dogs'",
    "U.S.A.",
    "iPhone15",
    "3D",
    "B2B",
    "C++",
    "AT&T",
    "e-mail's",
]
ADDRESSES = ["https://a.b/c?d=e", "me@example.org", "@user", "#tag", "a_b", "foo.py", "C:\\x"]

ODD_STRINGS = [*EMOJI, *SCRIPTS, *CONTROL, *SPACES, *PUNCTUATION, *MARKS, *LONG, *WORDS, *ADDRESSES]
