"""How numbers are printed: a job is `j-3k9`, a submission without a name `s-3k9`.

The alphabet has no letter that is read as another (no i, l, o, u), so an id survives being read aloud.
"""

from __future__ import annotations

# Every number of 64 bits with a sign; above some thousands of digits Python itself refuses.
MOST_DIGITS = 19
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def spell(number: int) -> str:
    """The number in base 32; at least one digit."""
    if number == 0:
        return ALPHABET[0]
    digits: list[str] = []
    while number:
        number, rest = divmod(number, 32)
        digits.append(ALPHABET[rest])
    return "".join(reversed(digits))


def unspell(text: str) -> int | None:
    """The number that `spell` printed, or None for anything else."""
    if not text or len(text) > 13:
        return None
    number = 0
    for letter in text:
        at = ALPHABET.find(letter)
        if at < 0:
            return None
        number = number * 32 + at
    return number


def whole_number(text: str) -> int | None:
    """A number as people type one; None for anything else, also for what other scripts call digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None


def job_id(number: int) -> str:
    """What people see and type for a job."""
    return "j-" + spell(number)


def find_job_number(text: str) -> int | None:
    """The job number behind `j-…`, or None when the text is no job id."""
    return unspell(text[2:]) if text.startswith("j-") else None
