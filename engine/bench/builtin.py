"""The prompts that come along, so that a benchmark needs nothing else: (category, text)."""

_LEDGER = """def monthly_totals(entries):
    totals = {}
    for entry in entries:
        month = entry["date"][:7]
        if month in totals:
            totals[month] = totals[month] + entry["amount"]
        else:
            totals[month] = entry["amount"]
    return totals


def largest(entries):
    best = None
    for entry in entries:
        if best is None or entry["amount"] > best["amount"]:
            best = entry
    return best"""

_NOTICE = (
    "The ferry between the mainland and the two islands will run to a winter timetable from the "
    "first Monday of November until the last Sunday of March. There will be four crossings a day "
    "instead of nine. The first boat leaves the mainland at 7:10 and reaches the northern island "
    "at 7:55 and the southern one at 8:30; the last boat back leaves the southern island at 17:45. "
    "Cars must be booked a day ahead, as only one of the two boats can carry them while the other "
    "is in dry dock. Bicycles and dogs travel free. In strong wind from the west the southern pier "
    "cannot be used, and passengers are taken on by bus from the northern one at no charge. "
    "Tickets bought for the summer timetable stay valid, but seat reservations do not."
)

BUILTIN: tuple[tuple[str, str], ...] = (
    ("chat", "My neighbour's rooster wakes me at four every morning. How do I bring it up kindly?"),
    ("chat", "What should I look at when I buy a used bicycle? Give me a short checklist."),
    ("writing", "Write a letter from a lighthouse keeper to the ship that never answers."),
    (
        "writing",
        "Describe a bakery at four in the morning, in three paragraphs, without dialogue.",
    ),
    (
        "reasoning",
        "Four friends share a taxi and leave it one after another. Only the last one pays. "
        "Explain step by step how they could split the fare fairly.",
    ),
    (
        "math",
        "A tank holds 240 litres. One tap fills it in 8 hours, a drain empties it in 12. Both are "
        "open, and the tank is a quarter full. When is it full? Show every step.",
    ),
    (
        "code",
        "Write a Python function that takes a list of (start, end) intervals and returns them "
        "merged where they overlap, with a docstring and three assertions that test it.",
    ),
    (
        "code",
        "Write a small command line program in Python that counts words in text files given as "
        "arguments, and prints the twenty most frequent ones with their counts.",
    ),
    (
        "edit",
        "Add type hints and docstrings to this module, change nothing else, and give me all of "
        f"it:\n\n```python\n{_LEDGER}\n```",
    ),
    ("summarization", f"Summarize this notice in three sentences:\n\n{_NOTICE}"),
    (
        "extraction",
        f"List every time of day in this notice, with what happens then, as JSON:\n\n{_NOTICE}",
    ),
    (
        "translation",
        "Translate into German: The museum is closed on Tuesdays, but the garden stays open until "
        "dusk, and the café by the river serves soup all day.",
    ),
)
