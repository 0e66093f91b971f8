"""Ctrl-C in the process itself: what is told to the work, and when."""

import signal

import pytest

from gibbsdiff.cli.interrupts import gentle_interrupts


def press():
    signal.raise_signal(signal.SIGINT)


def test_the_first_is_told_once_by_the_next_report_of_progress(capfd):
    heard = []
    with gentle_interrupts() as interrupts:
        report = interrupts.heeded_by(lambda *step: heard.append(step))
        report("search", 0, 2)
        assert not interrupts.asked
        press()
        assert interrupts.asked
        with pytest.raises(KeyboardInterrupt):
            report("search", 1, 2)
        report("writing", 0, 1)  # what is there is brought to an end undisturbed
        interrupts.check()
    assert heard == [("search", 0, 2), ("writing", 0, 1)]
    assert capfd.readouterr().err.count("ending with what is there") == 1


def test_the_second_ends_at_once_and_without_the_result(capfd):
    with gentle_interrupts() as interrupts:
        report = interrupts.heeded_by(lambda *_: None)
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
        report("search", 1, 2)  # it was raised already
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    assert capfd.readouterr().err.count("\n") == 1


def test_signals_wait_while_files_are_written():
    with gentle_interrupts() as interrupts:
        with interrupts.waiting():
            press()
            press()
        assert interrupts.asked
        interrupts.check()
        interrupts.heeded_by(lambda *_: None)("next", 0, 1)


def test_it_is_as_before_outside_and_ignored_signals_stay_ignored():
    with gentle_interrupts():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        press()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with gentle_interrupts() as interrupts:
            press()
        assert not interrupts.asked
    finally:
        signal.signal(signal.SIGINT, before)
