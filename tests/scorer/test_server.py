"""The program: its start and end, and clients that send slowly or too much."""

import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import REPOSITORY
from tests.scorer.conftest import RUNAWAY, Scorer, fenced, wait_until_gone


def test_a_body_that_does_not_come_is_said_so(start_scorer: Callable[..., Scorer]) -> None:
    hurried = start_scorer(server={"request_seconds": 0.5}, num_instances=1)
    address = hurried.client.base_url
    with socket.create_connection((address.host, address.port), timeout=20) as connection:
        connection.sendall(b"PUT /api HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        head, _, body = b"".join(iter(lambda: connection.recv(65_536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ") and "request_seconds" in json.loads(body)["error"]


def test_a_body_above_the_limit_is_said_so_to_a_client_that_reads_late(scorer: Scorer) -> None:
    """urllib sends everything before it reads: it must not meet a closed connection."""
    request = urllib.request.Request(f"{scorer.url}/api", data=b"x" * 20_000_000, method="PUT")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
    assert refused.value.code == 413 and "max_body_bytes" in json.load(refused.value)["error"]


def test_workers_that_do_not_start_are_one_sentence(tmp_path: Path) -> None:
    """Without /proc no time limit would hold."""
    settings, address = tmp_path / "a.yaml", tmp_path / "address"
    settings.write_text(f"""
ScorerServer: {{log_file: {tmp_path / "log"}}}
Scorers: {{Scorer1: {{class_name: MathRewardModel, num_instances: 1}}}}
""")
    address.write_text("192.0.2.1:5001")
    code = "import sys, psutil, rl.scorer.options as o; psutil.PROCFS_PATH = '/none'; sys.exit(o.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "-c", settings, "--port", "0", "--address-file", address]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and address.read_text() == "192.0.2.1:5001"
    unreadable = "Error: The workers do not start: the processor time of a worker cannot be read in /pr"
    assert done.stderr.startswith(unreadable)


@pytest.mark.parametrize(("number", "seconds", "rows"), [(signal.SIGTERM, 20, 200_000), (signal.SIGINT, 1, 6_000_000)])
def test_a_signal_under_load_answers_every_request_that_was_taken_and_ends_in_time(
    start_scorer: Callable[..., Scorer], number: int, seconds: int, rows: int
) -> None:
    """All waiting requests are answered; with one second only some are, and the others are told to ask again.

    The address file goes with its server, unless another one has written it.
    """
    scorer = start_scorer(prediction_seconds=30.0, server={"shutdown_seconds": seconds, "max_waiting": 1000})
    assert scorer.process.stdout.readline().decode().split()[-1] == scorer.url
    count = "WITH RECURSIVE r(x) AS (SELECT {} UNION ALL SELECT x + 1 FROM r LIMIT {}) SELECT count(*) FROM r"

    def ask(first: int) -> tuple[int, dict]:
        responses = [fenced(count.format(first, rows)), fenced("SELECT 1"), "nothing"]
        reply = scorer.put(responses, f"SELECT {rows}")
        return reply.status_code, reply.json()

    with concurrent.futures.ThreadPoolExecutor(40) as executor:
        sent = [executor.submit(ask, first) for first in range(40)]
        deadline = time.monotonic() + 30
        # Each request has one prediction of its own and one that all share.
        while scorer.metric('scorer_cache_misses_total{cache="sql_answers"}') < len(sent) + 1:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        workers = scorer.workers()
        # Ctrl-C, and what ends a program with all its descendants (processes.py), reaches the workers too.
        for process in [scorer.process.pid, *workers] if number == signal.SIGINT else [scorer.process.pid]:
            os.kill(process, number)
        # A launcher that also got Ctrl-C stops its scorer.
        time.sleep(0.1)
        os.kill(scorer.process.pid, signal.SIGINT)
        told = time.monotonic()
        address_file = scorer.directory / "address"
        if seconds == 1:
            address_file.write_text("192.0.2.1:5001")
        replies = [each.result() for each in sent]
    assert scorer.process.wait(timeout=20) == 0
    assert time.monotonic() - told < seconds + 15
    assert address_file.exists() is (seconds == 1)
    wait_until_gone(workers)
    answered = [body for status, body in replies if status == 200]
    assert all([score for score, _ in body["Scorer1"]] == [1.0, 0.0, 0.0] for body in answered)
    refused = [body for status, body in replies if status == 503]
    assert all("ending" in body["error"] and body["busy"] is True for body in refused)
    assert len(answered) + len(refused) == len(replies)
    assert bool(refused) is (seconds == 1)
    assert b"KeyboardInterrupt" not in scorer.process.stdout.read()
    assert "Traceback" not in (scorer.directory / "scorer.log").read_text()


def test_a_killed_server_leaves_no_process(start_scorer: Callable[..., Scorer]) -> None:
    scorer = start_scorer(prediction_seconds=300.0)
    workers = scorer.workers()
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        under_way = executor.submit(scorer.put, [fenced(RUNAWAY)], "SELECT 1")
        time.sleep(0.3)
        scorer.process.kill()
        assert under_way.exception() is not None
    scorer.process.wait()
    wait_until_gone(workers)
