"""Names for what nobody named: `lucky-heron-41`, easy to say, the same for the same content."""

from __future__ import annotations

from hashlib import sha256

_FIRST = (
    "agile amber ample azure bold brave brief bright brisk broad calm candid civil clear clever cosy "
    "crisp deft eager early even fair fleet fresh frosty gentle glad golden grand handy hardy hasty "
    "honest jolly keen kind level light lively loyal lucky mellow merry mild modest neat noble patient "
    "plain polite prompt proud quick quiet ready robust rosy sober solid steady sunny swift tidy warm"
)
_SECOND = (
    "anchor badger beacon beaver bobcat buoy cedar comet condor coral cove crane cutter delta dolphin "
    "egret falcon ferry finch gannet glacier gull harbour hawk heron island jetty kestrel lagoon lantern "
    "lark linnet lobster maple marlin mast meadow moraine narwhal oak orca osprey otter petrel pier "
    "pilot plover puffin quay raven reef ridge robin salmon sextant skiff sloop sparrow spruce stork "
    "swallow tern tide willow"
)
FIRST = _FIRST.split()
SECOND = _SECOND.split()


def make_name(content: bytes) -> str:
    """A speakable name for this content."""
    drawn = int.from_bytes(sha256(content).digest()[:8])
    drawn, number = divmod(drawn, 100)
    drawn, second = divmod(drawn, len(SECOND))
    return f"{FIRST[drawn % len(FIRST)]}-{SECOND[second]}-{number}"
