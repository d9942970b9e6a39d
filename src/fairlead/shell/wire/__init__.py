"""gRPC between the machines of a cluster: doors that listen, lines that are dialled, records on both ends."""

import os

# gRPC's C library tells every closed connection on stderr, past all logging. What matters of that reaches us as
# the status of a call. Read once, when grpc is first imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
