from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Up(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[UpFrame]
    def __init__(self, frames: _Optional[_Iterable[_Union[UpFrame, _Mapping]]] = ...) -> None: ...

class Down(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[DownFrame]
    def __init__(self, frames: _Optional[_Iterable[_Union[DownFrame, _Mapping]]] = ...) -> None: ...

class UpFrame(_message.Message):
    __slots__ = ("number", "seen", "body")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    number: int
    seen: int
    body: _containers.RepeatedCompositeFieldContainer[Word]
    def __init__(self, number: _Optional[int] = ..., seen: _Optional[int] = ..., body: _Optional[_Iterable[_Union[Word, _Mapping]]] = ...) -> None: ...

class DownFrame(_message.Message):
    __slots__ = ("number", "seen", "body")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    number: int
    seen: int
    body: _containers.RepeatedCompositeFieldContainer[Order]
    def __init__(self, number: _Optional[int] = ..., seen: _Optional[int] = ..., body: _Optional[_Iterable[_Union[Order, _Mapping]]] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("welcome", "servers", "start", "stop", "retract", "ack", "specs", "beat", "moved")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    RETRACT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    servers: Servers
    start: Start
    stop: Stop
    retract: Retract
    ack: Ack
    specs: Specs
    beat: Beat
    moved: Moved
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., servers: _Optional[_Union[Servers, _Mapping]] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., stop: _Optional[_Union[Stop, _Mapping]] = ..., retract: _Optional[_Union[Retract, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., specs: _Optional[_Union[Specs, _Mapping]] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ..., moved: _Optional[_Union[Moved, _Mapping]] = ...) -> None: ...

class Word(_message.Message):
    __slots__ = ("hello", "report", "reported", "refused", "stages", "ended", "output_done", "retracted", "load", "leaving")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    REPORTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_DONE_FIELD_NUMBER: _ClassVar[int]
    RETRACTED_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    report: Report
    reported: Reported
    refused: Refused
    stages: Stages
    ended: Ended
    output_done: OutputDone
    retracted: Retracted
    load: Load
    leaving: Leaving
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., reported: _Optional[_Union[Reported, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., stages: _Optional[_Union[Stages, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ..., output_done: _Optional[_Union[OutputDone, _Mapping]] = ..., retracted: _Optional[_Union[Retracted, _Mapping]] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., leaving: _Optional[_Union[Leaving, _Mapping]] = ...) -> None: ...

class Keys(_message.Message):
    __slots__ = ("job", "first", "count", "attempt")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    job: _containers.RepeatedScalarFieldContainer[int]
    first: _containers.RepeatedScalarFieldContainer[int]
    count: _containers.RepeatedScalarFieldContainer[int]
    attempt: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, job: _Optional[_Iterable[int]] = ..., first: _Optional[_Iterable[int]] = ..., count: _Optional[_Iterable[int]] = ..., attempt: _Optional[_Iterable[int]] = ...) -> None: ...

class Fence(_message.Message):
    __slots__ = ("site", "generation", "term")
    SITE_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    site: str
    generation: int
    term: int
    def __init__(self, site: _Optional[str] = ..., generation: _Optional[int] = ..., term: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("fence", "beat_ms", "lost_after_ms", "fresh", "refusal")
    FENCE_FIELD_NUMBER: _ClassVar[int]
    BEAT_MS_FIELD_NUMBER: _ClassVar[int]
    LOST_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    fence: Fence
    beat_ms: int
    lost_after_ms: int
    fresh: bool
    refusal: str
    def __init__(self, fence: _Optional[_Union[Fence, _Mapping]] = ..., beat_ms: _Optional[int] = ..., lost_after_ms: _Optional[int] = ..., fresh: _Optional[bool] = ..., refusal: _Optional[str] = ...) -> None: ...

class Servers(_message.Message):
    __slots__ = ("control", "output")
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    control: _containers.RepeatedScalarFieldContainer[str]
    output: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, control: _Optional[_Iterable[str]] = ..., output: _Optional[_Iterable[str]] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("keys", "spec", "lease_ms")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    spec: _containers.RepeatedScalarFieldContainer[str]
    lease_ms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., spec: _Optional[_Iterable[str]] = ..., lease_ms: _Optional[_Iterable[int]] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("keys", "how", "reason")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    how: int
    reason: int
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., how: _Optional[int] = ..., reason: _Optional[int] = ...) -> None: ...

class Retract(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("keys", "what")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    what: int
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., what: _Optional[int] = ...) -> None: ...

class Specs(_message.Message):
    __slots__ = ("hashes", "bodies")
    HASHES_FIELD_NUMBER: _ClassVar[int]
    BODIES_FIELD_NUMBER: _ClassVar[int]
    hashes: _containers.RepeatedScalarFieldContainer[str]
    bodies: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, hashes: _Optional[_Iterable[str]] = ..., bodies: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("withheld",)
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    withheld: Keys
    def __init__(self, withheld: _Optional[_Union[Keys, _Mapping]] = ...) -> None: ...

class Moved(_message.Message):
    __slots__ = ("leader",)
    LEADER_FIELD_NUMBER: _ClassVar[int]
    leader: str
    def __init__(self, leader: _Optional[str] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("boot", "mark", "fence", "names", "totals", "labels", "capabilities")
    BOOT_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    boot: str
    mark: str
    fence: Fence
    names: _containers.RepeatedScalarFieldContainer[str]
    totals: _containers.RepeatedScalarFieldContainer[int]
    labels: _containers.RepeatedScalarFieldContainer[str]
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, boot: _Optional[str] = ..., mark: _Optional[str] = ..., fence: _Optional[_Union[Fence, _Mapping]] = ..., names: _Optional[_Iterable[str]] = ..., totals: _Optional[_Iterable[int]] = ..., labels: _Optional[_Iterable[str]] = ..., capabilities: _Optional[_Iterable[str]] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("keys", "term", "stage", "spec")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    term: _containers.RepeatedScalarFieldContainer[int]
    stage: _containers.RepeatedScalarFieldContainer[int]
    spec: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., term: _Optional[_Iterable[int]] = ..., stage: _Optional[_Iterable[int]] = ..., spec: _Optional[_Iterable[str]] = ...) -> None: ...

class Reported(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("keys", "reason")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    reason: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., reason: _Optional[_Iterable[int]] = ...) -> None: ...

class Stages(_message.Message):
    __slots__ = ("keys", "stage", "at")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    stage: _containers.RepeatedScalarFieldContainer[int]
    at: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., stage: _Optional[_Iterable[int]] = ..., at: _Optional[_Iterable[int]] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("keys", "term", "outcome", "reason", "exit", "started", "ended", "output")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    term: _containers.RepeatedScalarFieldContainer[int]
    outcome: _containers.RepeatedScalarFieldContainer[int]
    reason: _containers.RepeatedScalarFieldContainer[int]
    exit: _containers.RepeatedScalarFieldContainer[int]
    started: _containers.RepeatedScalarFieldContainer[int]
    ended: _containers.RepeatedScalarFieldContainer[int]
    output: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., term: _Optional[_Iterable[int]] = ..., outcome: _Optional[_Iterable[int]] = ..., reason: _Optional[_Iterable[int]] = ..., exit: _Optional[_Iterable[int]] = ..., started: _Optional[_Iterable[int]] = ..., ended: _Optional[_Iterable[int]] = ..., output: _Optional[_Iterable[int]] = ...) -> None: ...

class OutputDone(_message.Message):
    __slots__ = ("keys", "complete", "out_length", "err_length")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    OUT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    ERR_LENGTH_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    complete: _containers.RepeatedScalarFieldContainer[int]
    out_length: _containers.RepeatedScalarFieldContainer[int]
    err_length: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., complete: _Optional[_Iterable[int]] = ..., out_length: _Optional[_Iterable[int]] = ..., err_length: _Optional[_Iterable[int]] = ...) -> None: ...

class Retracted(_message.Message):
    __slots__ = ("keys", "yes")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    YES_FIELD_NUMBER: _ClassVar[int]
    keys: Keys
    yes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, keys: _Optional[_Union[Keys, _Mapping]] = ..., yes: _Optional[_Iterable[int]] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("cpu", "memory")
    CPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    cpu: int
    memory: int
    def __init__(self, cpu: _Optional[int] = ..., memory: _Optional[int] = ...) -> None: ...

class Leaving(_message.Message):
    __slots__ = ("keep", "back_within_ms")
    KEEP_FIELD_NUMBER: _ClassVar[int]
    BACK_WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    keep: bool
    back_within_ms: int
    def __init__(self, keep: _Optional[bool] = ..., back_within_ms: _Optional[int] = ...) -> None: ...

class OutputUp(_message.Message):
    __slots__ = ("blocks",)
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, blocks: _Optional[_Iterable[bytes]] = ...) -> None: ...

class OutputDown(_message.Message):
    __slots__ = ("job", "index", "attempt", "term", "stream", "offset", "credit")
    JOB_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    job: _containers.RepeatedScalarFieldContainer[int]
    index: _containers.RepeatedScalarFieldContainer[int]
    attempt: _containers.RepeatedScalarFieldContainer[int]
    term: _containers.RepeatedScalarFieldContainer[int]
    stream: _containers.RepeatedScalarFieldContainer[int]
    offset: _containers.RepeatedScalarFieldContainer[int]
    credit: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, job: _Optional[_Iterable[int]] = ..., index: _Optional[_Iterable[int]] = ..., attempt: _Optional[_Iterable[int]] = ..., term: _Optional[_Iterable[int]] = ..., stream: _Optional[_Iterable[int]] = ..., offset: _Optional[_Iterable[int]] = ..., credit: _Optional[_Iterable[int]] = ...) -> None: ...
