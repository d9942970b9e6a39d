"""The roster of machines and the tokens: who may join, who may ask for what.

Secrets never get here: tokens are known by the digests of their secrets.
"""

from __future__ import annotations

import hmac

from fairlead.base.ids import whole_number
from fairlead.controllers.ledger import Ledger, Token
from fairlead.controllers.names import no_such
from fairlead.controllers.work import Record, Say
from fairlead.model import changes, wall
from fairlead.model.errors import Problem
from fairlead.model.lifecycles import Wanted
from fairlead.model.requests import (
    AddToken,
    Admit,
    Admitted,
    Changed,
    Check,
    Principal,
    RevokeToken,
    WantAgent,
)

ROLES = ("agent", "server", "controller", "submit", "view", "operator", "admin")
LARGEST_JOIN = 4_000


class Access:
    """Decides over tokens and agents."""

    def __init__(self, ledger: Ledger, record: Record, say: Say, site: str) -> None:
        self.ledger = ledger
        self.record = record
        self.say = say
        self.site = site

    def begin(self) -> None:
        """A new term: the scheduler learns the roster."""
        self._tell(list(self.ledger.agents))

    def _tell(self, numbers: list[int]) -> None:
        agents = [self.ledger.agents[number] for number in numbers]
        self.say(
            wall.Agents(
                numbers,
                [agent.name for agent in agents],
                [agent.wanted for agent in agents],
                [agent.boot for agent in agents],
                [agent.mark for agent in agents],
            )
        )

    def add_token(self, request: AddToken, now: int) -> Changed | Problem:
        """A new token; the same id and digest again is a repeat."""
        if request.role not in ROLES:
            return Problem(
                "invalid",
                f"there is no role '{request.role}'",
                f"roles are {', '.join(ROLES)}",
                "--role",
                "fairlead token create --role submit",
            )
        known = self.ledger.tokens.get(request.id)
        if known is not None and known.digest != request.digest:
            return Problem("key_reused", "a token with this id exists")
        if known is None:
            expires = now + request.ttl_ms if request.ttl_ms else 0
            self.record(
                changes.TokenAdded(
                    request.id, request.digest, request.role, request.tenant, request.uses, expires
                )
            )
        return Changed([request.id], ["ok"])

    def revoke_token(self, request: RevokeToken) -> Changed | Problem:
        """A token that opens nothing any more."""
        token = self.ledger.tokens.get(request.id)
        if token is None:
            return no_such("token", request.id)
        if not token.revoked:
            self.record(changes.TokenRevoked(request.id))
        return Changed([request.id], ["ok"])

    def check(self, request: Check, now: int) -> Principal | Problem:
        """Whom a bearer token stands for."""
        token = self._valid(request.token, request.digest, now)
        return token if isinstance(token, Problem) else Principal(token.role, token.tenant)

    def admit(self, request: Admit, now: int) -> Admitted | Problem:
        """A number for a machine with a good join token."""
        again = self._admitted(request)
        if again is not None:
            return again
        token = self._valid(request.token, request.digest, now)
        if isinstance(token, Problem):
            return token
        if token.role != request.role:
            return Problem(
                "denied",
                f"this token is for role '{token.role}'",
                f"'{request.role}' wants to join",
                fix=f"fairlead token create --role {request.role}",
            )
        if request.role != "agent":
            return Admitted(0, [request.name], self.site)
        return self._number(request, token)

    def _admitted(self, request: Admit) -> Admitted | None:
        """A repeat of a join whose answer was lost: the same machines, as long as none of them ever came."""
        token = self.ledger.tokens.get(request.token)
        if token is None or not same(token.digest, request.digest):
            return None
        mine = [agent for agent in self.ledger.agents.values() if agent.token == token.id and not agent.boot]
        if token.uses or not mine or len(mine) != request.count:
            return None
        if request.count == 1 and request.name not in ("", mine[0].name):
            return None
        return Admitted(mine[0].number, [agent.name for agent in mine], self.site)

    def _number(self, request: Admit, token: Token) -> Admitted | Problem:
        first = self.ledger.last_agent + 1
        if not 1 <= request.count <= LARGEST_JOIN:
            return Problem("invalid", f"{request.count} agents at once", f"at most {LARGEST_JOIN}")
        names = _names(request, first)
        taken = next((name for name in names if name in self.ledger.agent_names), None)
        if taken is not None:
            return Problem(
                "exists",
                f"an agent named '{taken}' has joined already",
                "its folder holds its identity; names are not given twice",
                "--name",
                f"--name {taken}-2",
            )
        numbers = list(range(first, first + request.count))
        for number, name in zip(numbers, names, strict=True):
            self.record(changes.AgentAdded(number, name, token.id, number == first))
        self._tell(numbers)
        return Admitted(first, names, self.site)

    def want_agent(self, request: WantAgent) -> Changed | Problem:
        """Cordon, drain, ban, or open an agent again."""
        number = self.ledger.agent_names.get(request.name) or whole_number(request.name) or 0
        agent = self.ledger.agents.get(number)
        if agent is None:
            return no_such("agent", request.name)
        if request.wanted not in frozenset(Wanted):
            return Problem("invalid", f"{request.wanted} is nothing one can want of an agent")
        if agent.wanted != request.wanted:
            self.record(changes.AgentWanted(number, request.wanted, request.reason))
            self._tell([number])
        return Changed([agent.name], ["ok"])

    def _valid(self, name: str, digest: str, now: int) -> Token | Problem:
        token = self.ledger.tokens.get(name)
        if token is None or not same(token.digest, digest):
            return _denied("this token is not known here", "submit")
        if token.revoked:
            return _denied("this token was revoked", token.role)
        if token.expires and token.expires <= now:
            return _denied("this token has expired", token.role)
        if token.uses == 0:
            return _denied("this token was used already", token.role)
        return token


def same(digest: str, other: str) -> bool:
    """Compared in constant time; as bytes, for text that is not ASCII cannot be compared so."""
    return hmac.compare_digest(digest.encode(), other.encode("utf-8", "surrogatepass"))


def _names(request: Admit, first: int) -> list[str]:
    base = request.name or "agent"
    if request.count == 1:
        return [request.name or f"agent-{first}"]
    return [f"{base}-{first + at}" for at in range(request.count)]


def _denied(message: str, role: str) -> Problem:
    return Problem("denied", message, "a token opens only what it was made for", fix=_make_token(role))


def _make_token(role: str) -> str:
    return f"fairlead token create --role {role}"
