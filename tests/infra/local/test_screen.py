"""What is printed to a terminal and to a file."""

import io

from infra.local.screen import Screen


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_keeps_one_live_line_below_the_messages(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    screen = Screen()
    screen.live("slot 1")
    screen.live("slot 2 with a tail that is too long for the terminal")
    screen.say("redis ended")
    screen.live("slot 3")
    assert terminal.getvalue() == (
        "\rslot 1\x1b[K\rslot 2 with a tail \x1b[K\r\x1b[Kredis ended\n\rslot 3\x1b[K"
    )


def test_a_file_gets_a_line_for_each(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr("sys.stdout", file)
    screen = Screen()
    screen.live("slot 1")
    screen.say("redis ended")
    print("a log line", file=screen)
    assert file.getvalue() == "slot 1\nredis ended\na log line\n"


def test_a_reader_that_has_left_does_not_stop_us(monkeypatch):
    written = []

    class Left(io.StringIO):
        def write(self, text):
            written.append(text)
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Left())
    screen = Screen()
    screen.live("slot 1")
    screen.say("slot 2")
    assert written
