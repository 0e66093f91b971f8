"""Bars are for terminals: elsewhere nothing is written."""

import os
import pty
import select
import sys

import pytest

from gibbsdiff.cli.progress import bar_for, stages


def work():
    with bar_for("mocks", 3) as done:
        for i in range(4):
            done(i)
    with stages("1 of 2, a[1].png: ") as show:
        show("first", 0, 7)
        show("first", 5, 7)
        show("second", 0, None)


@pytest.mark.parametrize("forced", [False, True])
def test_nothing_is_written_where_there_is_no_terminal(capfd, monkeypatch, forced):
    if forced:  # whoever wants colours in a pipe still wants no bars there
        monkeypatch.setenv("FORCE_COLOR", "1")
    work()
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_names_stages_and_counts(monkeypatch, capfd):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    master, slave = pty.openpty()
    shown = ""
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        work()
        monkeypatch.undo()
        while select.select([master], [], [], 0.1)[0]:
            shown += os.read(master, 4096).decode(errors="replace")
    os.close(master)
    for words in ("mocks", "3/3", "1 of 2, a[1].png: first", "1 of 2, a[1].png: second", "0/?"):
        assert words in shown
    assert capfd.readouterr() == ("", "")


def test_what_is_refused_before_the_first_count_shows_no_bar(monkeypatch):
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with bar_for("mocks", 3):
            pass
        monkeypatch.undo()
        terminal.write("end")
        terminal.flush()
        assert os.read(master, 1000) == b"end"
    os.close(master)
