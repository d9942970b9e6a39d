"""The one table of routes: what is served, to whom, with which parameters. OpenAPI and the docs come from it."""

from __future__ import annotations

from fairlead.model.lifecycles import Wanted

from .attach import attach, logs
from .openapi import openapi
from .routes_events import events
from .routes_site import (
    Join,
    NewToken,
    Readiness,
    Renewal,
    Wanting,
    add_token,
    addresses,
    alive,
    authority,
    join,
    metrics,
    renew,
    revoke_token,
    status,
    wanting,
)
from .routes_work import Names, cancel_many, cancel_one, detach, history, listing, one, submit, why
from .submissions import JSON, YAML
from .table import Parameter, Route

TENANT = Parameter("tenant", "text", "Whose work; a token of one tenant sees only that.")
AFTER = Parameter("after", "count", "The cursor `next` of the page before.", 0)
LIMIT = Parameter("limit", "count", "At most so many items, 500 where nothing is said.", 0)
WAIT = Parameter("wait", "duration", "Answer when it ended, or after this time (60s at most).", 0)
OUTPUT = Parameter("output", "flag", "With `wait`: also until its output is whole or known not to be.", False)
PAGE = (TENANT, AFTER, LIMIT)
PATIENT = (TENANT, WAIT, OUTPUT)
ATTEMPT = Parameter("attempt", "count", "An attempt by number; the current one where nothing is said.", 0)
FRAMES = "application/octet-stream"
INSTANCE = "/v1/jobs/{job}/instances/{index}"

ROUTES: tuple[Route, ...] = (
    Route("POST", "/v1/submissions", "submit", "Submit jobs: JSON, or a job file in YAML. Honours "
          "`Idempotency-Key`; `X-File-Name` names the file in problems.", submit, (TENANT,),
          media=(JSON, *YAML[:2]), status=201),
    Route("GET", "/v1/submissions", "view", "List submissions.", listing("submissions"), PAGE, filtered=True),
    Route("GET", "/v1/submissions/{submission}", "view", "Show a submission.", one("submissions"), PATIENT),
    Route("GET", "/v1/jobs", "view", "List jobs; other parameters are filters.", listing("jobs"), PAGE,
          filtered=True),
    Route("GET", "/v1/jobs/{job}", "view", "Show a job.", one("jobs"), PATIENT),
    Route("GET", "/v1/jobs/{job}/why", "view", "Why it waits, or how it ended.", why, (TENANT,)),
    Route("GET", "/v1/jobs/{job}/history", "view", "What happened to it, in order.", history, (TENANT,)),
    Route("POST", "/v1/jobs/{job}/cancel", "submit", "End a job: TERM, grace, KILL.", cancel_one, (TENANT,)),
    Route("POST", "/v1/jobs/{job}/detach", "submit", "Its caller leaves it on purpose; it goes on.", detach, (TENANT,)),
    Route("POST", "/v1/cancel", "submit", "End many; each is answered by itself.", cancel_many, (TENANT,),
          body=Names),
    Route("GET", "/v1/jobs/{job}/instances", "view", "List the instances of a job.",
          listing("instances", "job"), PAGE, filtered=True),
    Route("GET", INSTANCE, "view", "Show an instance.", one("instances"), PATIENT),
    Route("GET", INSTANCE + "/why", "view", "Why it waits, or how it ended.", why, (TENANT,)),
    Route("GET", INSTANCE + "/history", "view", "What happened to it, in order.", history, (TENANT,)),
    Route("GET", INSTANCE + "/logs", "view", "The bytes of one log, as written.", logs,
          (TENANT, Parameter("stream", "stream", "Which log.", 0),
           Parameter("offset", "count", "From this byte on.", 0),
           Parameter("follow", "flag", "Go on until it ended and the log is whole.", False), ATTEMPT),
          gives=FRAMES),
    Route("GET", INSTANCE + "/attach", "view", "Both logs and events in frames, until it ended and its "
          "output is whole.", attach,
          (TENANT, Parameter("out", "count", "stdout from this byte on.", 0),
           Parameter("err", "count", "stderr from this byte on.", 0),
           Parameter("attempt", "count", "Of which attempt these offsets are; the current one where nothing "
                     "is said.", 0)),
          gives=FRAMES),
    Route("GET", "/v1/agents", "view", "List agents.", listing("agents"), PAGE, filtered=True),
    Route("GET", "/v1/agents/{agent}", "view", "Show an agent.", one("agents")),
    Route("POST", "/v1/agents/{agent}/cordon", "operator", "Start nothing new there.",
          wanting(Wanted.cordoned), body=Wanting),
    Route("POST", "/v1/agents/{agent}/uncordon", "operator", "Start work there again.",
          wanting(Wanted.open), body=Wanting),
    Route("POST", "/v1/agents/{agent}/drain", "operator", "Start nothing new there, and let it run empty.",
          wanting(Wanted.draining), body=Wanting),
    Route("GET", "/v1/servers", "view", "List servers.", listing("servers"), PAGE, filtered=True),
    Route("GET", "/v1/servers/{server}", "view", "Show a server, by its control's address.", one("servers")),
    Route("GET", "/v1/tokens", "admin", "List tokens, without secrets.", listing("tokens"), PAGE,
          filtered=True),
    Route("POST", "/v1/tokens", "admin", "Make a token; it is shown this once.", add_token, body=NewToken,
          status=201),
    Route("DELETE", "/v1/tokens/{token}", "admin", "Revoke a token.", revoke_token),
    Route("POST", "/v1/join", "", "A machine joins by its join token.", join, body=Join, status=201),
    Route("POST", "/v1/renew", "", "An agent gets its next certificate for the same key.", renew,
          body=Renewal),
    Route("GET", "/v1/authority", "", "The certificate of the site's authority.", authority,
          gives="application/x-pem-file"),
    Route("GET", "/v1/events", "view", "Server-sent events from now on, or behind `Last-Event-ID`.", events,
          (Parameter("since", "text", "As the header Last-Event-ID."),
           Parameter("type", "text", "Only events of this type."),
           Parameter("job", "text", "Only events of this job, by id.")), gives="text/event-stream"),
    Route("GET", "/v1/status", "view", "The site at a glance.", status, (TENANT,)),
    Route("GET", "/v1/addresses", "view", "Where this server is reached.", addresses),
    Route("GET", "/healthz", "", "This process answers.", alive),
    Route("GET", "/readyz", "", "Control answers this front.", Readiness()),
    Route("GET", "/metrics", "view", "Figures for Prometheus.", metrics, gives="text/plain"),
    Route("GET", "/openapi.json", "", "This table as OpenAPI 3.1.", lambda site, call: openapi(ROUTES, site)),
)  # fmt: skip
