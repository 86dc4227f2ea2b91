"""The inventory of an external cluster: addresses, and commands for faults.

The inventory is a TOML file; docs/external.md has complete examples. Commands are lines for
``/bin/sh``. In a command, ``{id}``, ``{host}`` and the other keys in a broker's table are
placeholders. Their values are quoted for the shell.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Self

import msgspec

from highwater.harness.base.errors import HarnessError, UsageError
from highwater.harness.base.suggestions import nearest

Verb = Literal["check", "kill", "pause", "resume", "start", "stop", "restart", "copy"]

LONGEST_S = 60.0
"""Time limit for commands that still run after their harness has ended."""

_PLACEHOLDER: Final = re.compile(r"(?<!\$)\{([a-z_]+)\}")
_LIMIT_S: Final = 60.0
_TAIL_BYTES: Final = 600
_DIES_S: Final = 5.0
_LONGER_S: Final[Mapping[str, float]] = {
    "start": 180.0,
    "stop": 180.0,
    "restart": 600.0,
    "copy": 600.0,
}
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,200}")
_TEXTS: Final = ("bootstrap", "kafka", "place", "prefix", "copied")
_COPY_ONLY: Final = frozenset({"topic", "into"})


class Commands(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Command lines for one broker. A fault without its command is not possible.

    When a command exits with status 0, it must have taken effect. A command must be idempotent,
    because healing may repeat ``resume`` and ``start``.

    Attributes:
        check: changes nothing; exits with 0 if the other commands would work.
        kill: sends SIGKILL.
        pause: sends SIGSTOP.
        resume: sends SIGCONT.
        start: starts the broker with its old data.
        stop: shuts the broker down cleanly, as an administrator would.
        restart: shuts the broker down cleanly and starts it again; may exit before the broker is
            ready.
        copy: copies the directories of ``{topic}`` and the ``*checkpoint`` files to ``{into}``.
    """

    check: str | None = None
    kill: str | None = None
    pause: str | None = None
    resume: str | None = None
    start: str | None = None
    stop: str | None = None
    restart: str | None = None
    copy: str | None = None

    def named(self) -> dict[str, str]:
        """Return the commands that the inventory has, by verb."""
        commands = {verb: getattr(self, verb) for verb in self.__struct_fields__}
        return {verb: text for verb, text in commands.items() if text is not None}


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command as the harness runs it.

    Attributes:
        what: text about the command, such as ``pause broker 2``.
        line: argument of ``/bin/sh -c``.
    """

    what: str
    line: str
    limit_s: float
    verb: str = ""

    def run(self, *, hold: int | None = None) -> None:
        """Run the command and wait for its end.

        The output goes to a file, because a background process could keep a pipe open.

        Args:
            hold: a descriptor that the command and its children keep open until they exit.

        Raises:
            HarnessError: the command failed, or was killed after its limit. The message has the end
                of its output.
        """
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self.line],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=() if hold is None else (hold,),
                start_new_session=True,  # a terminal's Ctrl-C does not reach the command
            )
            try:
                status: int | None = process.wait(self.limit_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(_DIES_S)
            if status == 0:
                return
            output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL_BYTES))
            tail = output.read().decode(errors="replace").strip()
        how = (
            f"ran longer than {self.limit_s:g} s"
            if status is None
            else f"ended with status {status}"
        )
        raise HarnessError(
            f"the command to {self.what} {how}: {self.line}\nIts output: {tail or '(none)'}"
        )


class Inventory(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An external cluster.

    Attributes:
        bootstrap: ``host:port,host:port`` of some brokers.
        kafka: the cluster's release in the catalogue, or the nearest older release.
        brokers: brokers that may get faults and that get the topic's replicas. Each broker id has
            the placeholders that commands may use.
        client: settings of librdkafka for access, such as ``security.protocol``.
        prefix: prefix of every topic that the harness creates on the cluster.
        copied: state of a broker while its directories are copied: ``live``, ``paused`` or
            ``stopped``.
        place: the cluster's name and uid in Kubernetes; the code of the cluster depends on it.
    """

    bootstrap: str
    kafka: str
    brokers: dict[int, dict[str, str | int]]
    commands: Commands = Commands()
    limits: dict[Verb, float] = {}
    client: dict[str, str] = {}
    prefix: str = "highwater-"
    copied: Literal["live", "paused", "stopped"] = "live"
    place: str = ""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read an inventory from a file, and check its content."""
        hint = "docs/external.md has complete examples."
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"the inventory {path} cannot be read: {why}", hint=hint) from error
        try:
            inventory = msgspec.convert(tomllib.loads(text), cls, strict=False)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"the inventory {path} is not TOML: {error}", hint=hint) from error
        except msgspec.ValidationError as error:
            raise UsageError(f"the inventory {path} is not valid: {error}", hint=hint) from error
        inventory._check(path)  # noqa: SLF001 - of this same class
        return inventory

    def can(self, *verbs: str) -> bool:
        """Return whether the inventory has commands for all of these verbs."""
        return set(verbs) <= set(self.commands.named())

    def command(self, verb: str, broker: int, **extra: str) -> Command:
        """Return a command for one broker, with values instead of placeholders."""
        line = self.commands.named().get(verb)
        if line is None:
            raise UsageError(
                f"the inventory has no command to {verb} a broker",
                hint="Add the command below [commands], or leave out the faults that need it.",
            )
        values = {"id": str(broker), **self.brokers[broker], **extra}
        filled = _PLACEHOLDER.sub(lambda match: shlex.quote(str(values[match[1]])), line)
        what = f"{verb} broker {broker}"
        return Command(what=what, verb=verb, line=filled, limit_s=self.limit_s(verb))

    def limit_s(self, verb: str) -> float:
        """Return the seconds after which a command is killed."""
        limits = {str(name): limit for name, limit in self.limits.items()}
        return limits.get(verb, _LONGER_S.get(verb, _LIMIT_S))

    def _check(self, path: Path) -> None:
        if not self.brokers:
            raise UsageError(f"{path} has no broker", hint="Add [brokers.1] with host = ….")
        if not _TOPIC.fullmatch(self.prefix) or self.prefix.startswith("__"):
            raise UsageError(
                f"{path}: topic names cannot begin with {self.prefix!r}",
                hint="Use letters, digits, '.', '_' and '-'; a leading '__' is Kafka's own prefix.",
            )
        if invalid := [verb for verb, limit in self.limits.items() if limit <= 0]:
            raise UsageError(
                f"{path}: the limit of {invalid[0]} is not positive", hint="Write seconds."
            )
        for verb, line in self.commands.named().items():
            for broker, names in self.brokers.items():
                available = {"id", *names} | (_COPY_ONLY if verb == "copy" else frozenset())
                for name in _PLACEHOLDER.findall(line):
                    if name not in available:
                        raise UsageError(
                            f"{path}: the command to {verb} broker {broker} uses {{{name}}}, but"
                            f" [brokers.{broker}] does not define it",
                            hint=nearest(name, available),
                        )
        copy = self.commands.copy
        if copy is not None and _COPY_ONLY - set(_PLACEHOLDER.findall(copy)):
            raise UsageError(
                f"{path}: the copy command does not use both {{topic}} and {{into}}",
                hint="Write {topic} for the topic to copy, and {into} for the target folder.",
            )
        needed = {"paused": ("pause", "resume"), "stopped": ("stop", "start"), "live": ()}
        if copy is not None and not self.can(*needed[self.copied]):
            raise UsageError(
                f"{path}: copied is {self.copied!r}, but the commands for this are missing",
                hint=f"Add commands to {' and '.join(needed[self.copied])}.",
            )


def to_toml(inventory: Inventory) -> str:
    """Return the text of an inventory's file."""
    tables: dict[str, Mapping[str, object]] = {
        "commands": inventory.commands.named(),
        "limits": {str(verb): limit for verb, limit in inventory.limits.items()},
        "client": inventory.client,
        **{f"brokers.{broker}": names for broker, names in inventory.brokers.items()},
    }
    texts = {name: getattr(inventory, name) for name in _TEXTS}
    lines = _entries({name: text for name, text in texts.items() if text})
    for table, entries in tables.items():
        lines += [f"[{table}]", *_entries(entries)] if entries or "." in table else []
    return "\n".join([*lines, ""])


def _entries(table: Mapping[str, object]) -> list[str]:
    words = {name: json.dumps(value, ensure_ascii=False) for name, value in table.items()}
    return [f'"{name}" = {word}' for name, word in words.items()]


def resolved(path: Path) -> Path:
    """Return the absolute path of an inventory, valid from any working directory."""
    return path.expanduser().resolve()
