"""Which cluster manager would grant executors, and whether it answers, without any Java."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from elastream.doctor.findings import Finding, Verdict
from elastream.doctor.hadoop_settings import YARN_VARIABLES, resource_managers
from elastream.launch.given import Given
from elastream.model.errors import ProblemError, UnsupportedSparkError

_CONNECT_S: Final = 5.0
_KUBERNETES: Final = "k8s://"
_IMAGES: Final = ("spark.kubernetes.executor.container.image", "spark.kubernetes.container.image")
_BEGIN_GENTLY: Final = "it was tried only on an imitation of the API server: begin with advise_only"

Reached = Callable[[str], str | None]
"""Returns why ``HOST:PORT`` cannot be reached; ``None`` where it can."""


def answers(address: str) -> str | None:
    """Return why ``HOST:PORT`` cannot be reached; ``None`` where it can."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return "is not HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error) or "no answer"
    return None


def on_this_machine(master: str | None) -> bool:
    """Return whether all executors would be on the driver's machine."""
    return master is None or master.startswith("local")


def cluster_manager(
    given: Given,
    option: str | None,
    environ: Mapping[str, str],
    reached: Reached = answers,
) -> Finding:
    """Check which cluster manager would grant executors, and whether it answers."""
    try:
        master = given.master(option, force=False)
    except UnsupportedSparkError as error:
        found, _, todo = str(error).partition("; ")
        return _finding("fail", found, todo.partition(", or override")[0])
    if master is None:
        return _finding("ok", "executors of this machine (the embedded cluster)")
    if on_this_machine(master):
        return _finding("ok", f"executors of this machine ({master})")
    if master.startswith("spark://"):
        return _standalone(master, reached)
    if master == "yarn":
        return _yarn(environ, reached)
    if master.startswith(_KUBERNETES):
        return _kubernetes(master, given.all, reached)
    todo = "give a `master` such as spark://HOST:PORT, yarn or k8s://https://HOST:PORT; or none"
    return _finding("fail", f"{master} is not a master that elastream knows", todo)


def _finding(verdict: Verdict, found: str, todo: str = "") -> Finding:
    return Finding("cluster manager", verdict, found, todo)


def _standalone(master: str, reached: Reached) -> Finding:
    missed = {each: reached(each) for each in master.removeprefix("spark://").split(",")}
    if None in missed.values():
        return _finding("ok", f"standalone, {master}")
    todo = "start the master, or give another `master`; is its port open to this machine?"
    return _finding("fail", f"no standalone master answers at {_reasons(missed)}", todo)


def _yarn(environ: Mapping[str, str], reached: Reached) -> Finding:
    variables = " or ".join(YARN_VARIABLES)
    if not any(environ.get(name) for name in YARN_VARIABLES):
        todo = f"let {variables} name the folder of YARN's configuration"
        return _finding("fail", "YARN, and nothing says where it is", todo)
    try:
        addresses = resource_managers(environ)
    except ProblemError as error:
        return _finding("fail", f"YARN: {error}", f"fix it, or let {variables} name another")
    if addresses is None:
        todo = "the session decides; Spark tries a missing ResourceManager for a quarter of an hour"
        return _finding("warn", "YARN, whose address cannot be read from its configuration", todo)
    missed = {each: reached(each) for each in addresses}
    there = [address for address, why in missed.items() if why is None]
    if there:
        return _finding("ok", f"YARN, its ResourceManager listens at {there[0]}")
    todo = f"start it, or let {variables} name the folder of another yarn-site.xml"
    return _finding("fail", f"no ResourceManager answers at {_reasons(missed)}", todo)


def _kubernetes(master: str, settings: Mapping[str, str], reached: Reached) -> Finding:
    if not any(settings.get(name) for name in _IMAGES):
        todo = f"set {_IMAGES[1]} to an image that has this Spark"
        return _finding("fail", f"Kubernetes, and nothing says what executors run ({master})", todo)
    url = master.removeprefix(_KUBERNETES)
    parts = urlsplit(url if "://" in url else f"https://{url}")
    try:
        address = f"{parts.hostname or ''}:{parts.port or (80 if parts.scheme == 'http' else 443)}"
    except ValueError:  # not a port
        address = parts.netloc
    why = reached(address)
    if why is not None:
        todo = "give another `master`; is its port open to this machine?"
        return _finding("fail", f"no Kubernetes API server answers at {address}: {why}", todo)
    return _finding("warn", f"Kubernetes, {master}", _BEGIN_GENTLY)


def _reasons(missed: Mapping[str, str | None]) -> str:
    return "; ".join(f"{address}: {why}" for address, why in missed.items())
