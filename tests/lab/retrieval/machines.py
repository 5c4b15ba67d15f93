"""What programs write and read: a log of 6,000 lines, a source file, minified JSON in one line."""

import json
from collections.abc import Sequence
from random import Random

from tests.lab.retrieval.case import Case, Question

# A log

_HOSTS = ("web-01", "web-02", "db-01", "cache-03")
_EVENTS = (
    "GET /api/v2/orders/{n} 200 {n}ms",
    "connection from 10.0.{n}.{n} accepted",
    "cache miss for key user:{n}",
    "slow query: {n}ms SELECT * FROM invoices WHERE id = {n}",
    "retry {n} of job mail-{n}",
    "heartbeat ok, {n} workers",
)
_LINES = {
    311: "ERROR db-01 deadlock detected between payroll and ledger",
    902: "WARN web-02 certificate of shop.example.net expires in 3 days",
    1544: "ERROR cache-03 eviction storm, 48219 keys lost",
    2100: "INFO web-01 deployment of release 7.4.1 finished",
    2877: "ERROR web-02 upload refused: virus Eicar found in tax.zip",
    3305: "WARN db-01 replication lag 1,204 seconds",
    4010: "INFO web-01 user ferreira locked after five attempts",
    4444: "INFO cache-03 snapshot written to /mnt/cold",
    5120: "ERROR db-01 disk full on /var/lib/archive",
    5803: "INFO web-02 feature flag dark-checkout enabled",
}
_OF_THE_LOG = (
    Question("words", "Why was the upload of tax.zip refused?", "virus Eicar"),
    Question("words", "When was release 7.4.1 deployed?", "release 7.4.1 finished"),
    Question("words", "Which disk is full?", "/var/lib/archive"),
    Question("words", "Which user was locked?", "user ferreira"),
    Question("forms", "Were there any deadlocks?", "between payroll and ledger"),
    Question("forms", "Which certificates are expiring?", "shop.example.net"),
    Question("place", "What is in line 4444?", "snapshot written"),
    Question("place", "What happened at line 5803 of the log?", "dark-checkout"),
    Question("number", "Which lag was 1204 seconds long?", "replication lag"),
    Question("other words", "How many keys did the storm cost?", "48219 keys lost"),
)


def _log() -> Case:
    chance = Random(9)
    lines = []
    for number in range(1, 6001):
        event = chance.choice(_EVENTS).format(n=chance.randint(1, 250))
        made = f"INFO {chance.choice(_HOSTS)} {event}"
        time = f"2026-03-{1 + number // 250:02}T{number // 60 % 24:02}:{number % 60:02}:07.113Z"
        lines.append(f"{time} {_LINES.get(number, made)}")
    return Case("server.log", "machine", "English", "\n".join(lines).encode(), _OF_THE_LOG)


# A source file

_VERBS = ("load", "store", "merge", "check", "split", "count")
_NOUNS = ("order", "invoice", "customer", "address", "payment", "report")
_FUNCTIONS = {
    12: ("retry_backoff", "Waits longer after each failure.", "return min(2.5**attempt, 97.0)"),
    33: ("normalize_iban", "Removes spaces from an account number.", "return iban.upper()[:34]"),
    51: ("is_leap", "Whether a year has 366 days.", "return year % 4 == 0 and year % 100 != 0"),
    70: ("freight_class", "The class of a parcel by its girth.", "return CLASSES[girth // 17]"),
    88: ("shred", "Overwrites a file before deleting it.", "file.write(urandom(4096))"),
    104: ("vat_rate", "The rate of a country.", "return RATES.get(country, 0.235)"),
    121: ("parse_gtin", "Reads a bar code.", "raise BarcodeError(f'{code} is no GTIN')"),
    139: ("throttle", "Limits requests of a client.", "self.bucket.refill(every=0.125)"),
    155: ("audit_trail", "Who changed what.", "yield from reversed(self.journal)"),
    170: ("close_books", "Ends a fiscal year.", "ledger.freeze(reason='year end')"),
}
_OF_THE_SOURCE = (
    Question("words", "What does retry_backoff return?", "min(2.5**attempt, 97.0)"),
    Question("words", "What is the default of vat_rate?", "RATES.get(country, 0.235)"),
    Question("words", "Where is BarcodeError raised?", "is no GTIN"),
    Question("words", "How is a parcel's class computed from its girth?", "CLASSES[girth // 17]"),
    Question("forms", "What does normalize iban do?", "iban.upper()[:34]"),
    Question("forms", "Is the file overwritten before it is deleted?", "file.write(urandom(4096))"),
    Question("forms", "How are clients throttled?", "refill(every=0.125)"),
    Question("place", "Explain the function audit_trail.", "reversed(self.journal)"),
    Question("other words", "Which method closes the year, and gives a reason?", "ledger.freeze("),
    Question("other words", "Which function handles leap years?", "year % 4 == 0"),
)


def _source() -> Case:
    chance = Random(10)
    parts = ['"""Orders of a shop."""\n\nfrom shop import *\n']
    for number in range(1, 181):
        noun, other = chance.choice(_NOUNS), chance.choice(_NOUNS)
        name, says, last = _FUNCTIONS.get(
            number,
            (f"{chance.choice(_VERBS)}_{noun}_{number}", f"Works on a {noun}.", f"return {other}"),
        )
        body = "\n".join(
            f"    {chance.choice(_NOUNS)} = self.{chance.choice(_VERBS)}_{chance.choice(_NOUNS)}"
            f"({chance.choice(_NOUNS)}, {chance.randint(1, 99)})"
            for _ in range(9)
        )
        parts.append(f'def {name}(self, {noun}):\n    """{says}"""\n{body}\n    {last}\n')
    return Case("shop.py", "machine", "English", "\n\n".join(parts).encode(), _OF_THE_SOURCE)


# JSON

_RECORDS = {
    40: {"name": "Quesada, Ines", "plan": "platinum", "seats": 310, "owner": "Halvorsen"},
    123: {"name": "Brightwater Dairy", "plan": "trial", "seats": 4, "owner": "Mbeki"},
    208: {"name": "Foundry 9", "plan": "grandfathered", "seats": 77, "owner": "Castellanos"},
    333: {"name": "Aster Clinics", "plan": "basic", "seats": 21, "owner": "Dlamini"},
    420: {"name": "Tinsmith", "plan": "basic", "seats": 1250001, "owner": "Haugen"},
    512: {"name": "Orchid Airlines", "plan": "team", "seats": 640, "owner": "Paredes"},
    600: {"name": "Lumen", "plan": "team", "seats": 90, "owner": "Kowalczyk", "note": "barter"},
    702: {"name": "Harbour Pilots", "plan": "team", "seats": 15, "owner": "Rossi"},
    815: {"name": "Zephyr", "plan": "basic", "seats": 8, "owner": "Ito", "region": "antarctica"},
    977: {"name": "Gull & Tern", "plan": "basic", "seats": 2, "owner": "Vasquez"},
}
_OF_JSON = (
    Question("words", "Who owns the account of Brightwater Dairy?", "Mbeki"),
    Question("words", "Which account is grandfathered?", "Foundry 9"),
    Question("words", "How many seats does Orchid Airlines have?", '"seats":640'),
    Question("words", "Who is the owner of Gull & Tern?", "Vasquez"),
    Question("words", "Which account is in antarctica?", "Zephyr"),
    Question("words", "What is the plan of Quesada, Ines?", "platinum"),
    Question("forms", "Who has a harbour pilot?", '"seats":15,"owner":"Rossi"'),
    Question("forms", "Which clinic is there?", "Dlamini"),
    Question("number", "Which account has 1,250,001 seats?", "Tinsmith"),
    Question("other words", "Which account pays by bartering?", "Kowalczyk"),
)


def _json() -> Case:
    chance = Random(11)
    plans, owners = ("basic", "team", "pro"), ("Smith", "Jones", "Weber", "Rossini", "Novak")
    records = []
    for number in range(1, 1101):
        made = {
            "name": f"{chance.choice(_NOUNS)} {number}",
            "plan": chance.choice(plans),
            "seats": chance.randint(1000, 9999),
            "owner": chance.choice(owners),
        }
        identity = {"id": f"acc_{chance.randrange(16**8):08x}", "active": chance.random() < 0.9}
        records.append({**identity, **_RECORDS.get(number, made)})
    data = json.dumps({"accounts": records}, separators=(",", ":"), ensure_ascii=False).encode()
    return Case("accounts.json", "machine", "English", data, _OF_JSON)


def machine_texts() -> Sequence[Case]:
    return _log(), _source(), _json()
