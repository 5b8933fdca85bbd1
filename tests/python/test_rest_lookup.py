"""Name servers that do not answer."""

import socket
import threading

import pytest
import ucudnn
from ucudnn import rest


def test_a_dead_name_server_is_reported_in_time(monkeypatch):
    monkeypatch.setattr(rest, "_LOOK_UP", 0.2)
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(120))
    with pytest.raises(ucudnn.Unreachable, match="no name server.*'coord-1.example'"):
        ucudnn.connect("coord-1.example:7461").jobs()
    assert not answered.is_set()
    answered.set()  # ends the look-up


def test_an_unknown_name_is_reported_at_once():
    with pytest.raises(ucudnn.Unreachable, match="coord-1.invalid"):
        ucudnn.connect("coord-1.invalid:7461").jobs()
