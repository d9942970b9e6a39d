"""Which site is spoken to: the option, the environment, then the contexts that `up`, `server` and `login` write.

A file is replaced whole and readable by its owner only, since it holds tokens.
"""

from __future__ import annotations

import json
import os

from .failures import Failure

NO_CONTEXT_FIX = "fairlead up"


class Site:
    """Where a site listens (`unix:///…/api.sock`, `http://…`, `https://…`), and what opens it.

    `ca` is the certificate of the site's authority, as text or as the path of a file.
    """

    def __init__(self, name: str, api: str, token: str = "", ca: str = "") -> None:
        self.name, self.api, self.token, self.ca = name, api, token, ca

    @property
    def socket(self) -> str:
        """The path of the local socket, empty for a site elsewhere."""
        return self.api.removeprefix("unix://") if self.api.startswith("unix://") else ""


def home() -> str:
    """The folder of the contexts."""
    if given := os.environ.get("FAIRLEAD_HOME"):
        return given
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(config, "fairlead")


def data_home() -> str:
    """The folder that `up` uses unless it is told another."""
    if given := os.environ.get("FAIRLEAD_HOME"):
        return os.path.join(given, "site")
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, "fairlead")


def find(name: str = "") -> Site:
    """The site that is meant; without any, how to get one."""
    name = name or os.environ.get("FAIRLEAD_CONTEXT", "")
    if not name and (api := os.environ.get("FAIRLEAD_API")):
        return Site(
            "FAIRLEAD_API", api, os.environ.get("FAIRLEAD_TOKEN", ""), os.environ.get("FAIRLEAD_CA", "")
        )
    current, sites = load()
    if not name and not current:
        why = f"{_file()} names none, and FAIRLEAD_API is not set"
        raise Failure("no_context", "no site to speak to", why, fix=NO_CONTEXT_FIX)
    chosen = name or current
    if chosen not in sites:
        known = ", ".join(sorted(sites)) or "none"
        fix = f"fairlead context use {min(sites)}" if sites else NO_CONTEXT_FIX
        raise Failure("no_such_context", f"no context is called {chosen}", f"known: {known}", fix=fix)
    return sites[chosen]


def load() -> tuple[str, dict[str, Site]]:
    """The current context's name, and all of them."""
    path = _file()
    try:
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
        sites = {
            name: Site(name, str(each["api"]), str(each.get("token", "")), str(each.get("ca", "")))
            for name, each in read["contexts"].items()
        }
        return str(read.get("current", "")), sites
    except FileNotFoundError:
        return "", {}
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        why = f"{type(fault).__name__}: {fault}"
        fix = f"mv {path} {path}.broken && {NO_CONTEXT_FIX}"
        raise Failure("broken_contexts", f"{path} cannot be read", why, fix=fix) from fault


def keep(site: Site, *, use: bool = True) -> None:
    """Write a context down, and make it the current one."""
    current, sites = load()
    sites[site.name] = site
    _write(site.name if use else current, sites)


def use(name: str) -> None:
    """Make a known context the current one."""
    _write(find(name).name, load()[1])


def forget(name: str) -> None:
    """Drop a context; the site itself is not touched."""
    site, (current, sites) = find(name), load()
    del sites[site.name]
    _write("" if current == site.name else current, sites)


def _file() -> str:
    return os.path.join(home(), "contexts.json")


def _write(current: str, sites: dict[str, Site]) -> None:
    os.makedirs(home(), mode=0o700, exist_ok=True)
    contexts = {
        name: {"api": site.api, "token": site.token, "ca": site.ca} for name, site in sorted(sites.items())
    }
    new = f"{_file()}.{os.getpid()}"
    descriptor = os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as out:
        json.dump({"current": current, "contexts": contexts}, out, indent=2)
    os.replace(new, _file())
