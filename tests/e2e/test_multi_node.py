"""Several hosts train as one: network namespaces, a launcher on each."""

import contextlib
import shutil
import signal
import subprocess
import sys

import pytest

import processes
from cluster import PORT, TOKEN
from processes import LOCKSTEP, TIMEOUT_S, wait_until
from safetensors_file import assert_same_bits, last_weights


NUM_HOSTS = 3
RANKS_PER_HOST = 2
PRINT_RANK = ["--program", "sh", "--", "-c", "echo $RANK/$WORLD_SIZE $GROUP_RANK $LOCAL_RANK $(hostname)"]


@pytest.mark.parametrize("cluster", [2, 3], indirect=True)
def test_hosts_are_bit_identical_to_one_host(job, cluster):
    hosts = len(cluster.hosts)
    together = cluster.train("train.max_steps=20", "tracking.ranks=all")
    for node in range(hosts):
        logs = together / "logs" / f"node_{node}" / "attempt_0"
        assert sorted(path.name for path in logs.iterdir()) == ["0", "1"]
    assert len({entry["id"] for entry in job.list()}) == 2 * hosts
    alone = job.run("train.max_steps=20", ranks=2 * hosts, options=["--run-id", "alone"])
    assert alone.code == 0, alone.err
    assert_same_bits(last_weights(together), last_weights(job.runs / "alone"))


def test_ipv6(cluster):
    endpoint = ["--rdzv-endpoint", f"[{cluster.hosts[0].address6}]:{PORT}"]
    cluster.train("train.max_steps=3", options=endpoint)


@pytest.fixture
def debian(cluster):
    """/etc/hosts as on Debian: each host resolves its own name to loopback."""
    cluster.network.write_hosts_files(cluster.job.directory)


SAY_MASTER = ["--program", "sh", "--", "-c", "echo $MASTER_ADDR"]


@pytest.mark.parametrize("way", ["endpoint", "static"])
def test_host_name_that_resolves_to_loopback(cluster, debian, way):
    alpha, beta = cluster.hosts
    for number, host in enumerate(cluster.hosts):
        how = ["--rdzv-endpoint", f"alpha:{PORT}"]
        if way == "static":
            how = ["--master-addr", "alpha", "--master-port", PORT, "--node-rank", number]
        command = [LOCKSTEP, "launch", "--nnodes", 2, *how, *SAY_MASTER]
        env = processes.environment(LOCKSTEP_RDZV_TOKEN=TOKEN)
        cluster.launchers[host.name] = host.start(command, cluster.job.directory, env)
    first, second = cluster.finish(alpha), cluster.finish(beta)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert (first.out, second.out) == (f"[rank 0] {alpha.address}\n", f"[rank 1] {alpha.address}\n")


def test_training_with_loopback_host_name(cluster, debian):
    cluster.train("train.max_steps=3", options=["--rdzv-endpoint", f"alpha:{PORT}"])


def test_ranks_without_a_launcher_with_loopback_host_name(job, cluster, debian):
    """As srun and mpirun start them: rank 0's host resolves its name to loopback, Gloo must not."""
    for rank, host in enumerate(cluster.hosts):
        env = processes.environment(RANK=rank, WORLD_SIZE=2, MASTER_ADDR="alpha", MASTER_PORT=29555)
        command = [processes.TRAINER, job.file, "train.max_steps=3"]
        cluster.launchers[host.name] = host.start(command, job.directory, env)
    ended = [cluster.finish(host) for host in cluster.hosts]
    assert [end.code for end in ended] == [0, 0], ended
    assert [entry["world_size"] for entry in job.list()] == [2]


def test_ranks_print_no_warnings_while_they_connect(job, cluster):
    """No DNS knows the addresses, about which c10d warns unless the user asks for its log."""
    for level in (None, "INFO"):
        changes = {"TORCH_CPP_LOG_LEVEL": level} if level else {}
        for rank, host in enumerate(cluster.hosts):
            env = processes.environment(RANK=rank, WORLD_SIZE=2, MASTER_ADDR=cluster.hosts[0].address,
                                        MASTER_PORT=29555, **changes)
            command = [processes.TRAINER, job.file, "train.max_steps=3"]
            cluster.launchers[host.name] = host.start(command, job.directory, env)
        ended = [cluster.finish(host) for host in cluster.hosts]
        assert [end.code for end in ended] == [0, 0], ended
        assert [("[c10d]" in end.err) for end in ended] == [level is not None] * 2, ended


NAME_SERVER = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind(("127.0.0.1", 53))
    print("ready", flush=True)
    while True:
        print(server.recvfrom(512)[0], flush=True)
"""


def test_ranks_do_not_look_up_the_names_of_peers(cluster):
    """The name server does not answer, which would delay each of them."""
    settings = cluster.job.directory / "resolv.conf"
    settings.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    servers = []
    for host in cluster.hosts:
        host.mounts = {"/etc/resolv.conf": settings}
        servers.append(host.start([sys.executable, "-c", NAME_SERVER], cluster.job.directory))
        assert servers[-1].stdout.readline() == "ready\n"
        look_up = "import socket; socket.getnameinfo(('192.0.2.1', 1), 0)"
        processes.finish(host.start([sys.executable, "-c", look_up], cluster.job.directory))
        assert "in-addr" in servers[-1].stdout.readline(), "a program that looks up a name asks the server"
    cluster.train("train.max_steps=3")
    for server in servers:
        server.terminate()
        assert processes.finish(server).out == ""


@pytest.mark.parametrize("address, reason", [
    ("no-such-host", "the name 'no-such-host' cannot be resolved"),
    ("192.0.2.1", "this machine has no route to 192.0.2.1"),
])
def test_ranks_without_a_launcher_and_an_unreachable_rendezvous(job, cluster, address, reason):
    host = cluster.hosts[0]
    env = processes.environment(RANK=1, WORLD_SIZE=2, MASTER_ADDR=address, MASTER_PORT=29555)
    cluster.launchers[host.name] = host.start([processes.TRAINER, job.file, "distributed.timeout=1s"], job.directory, env)
    ended = cluster.finish(host)
    assert ended.code == 75, ended.err
    problem = f"rank 1 cannot reach the rendezvous at {address}:29555 within 1 s: {reason}"
    assert ended.err.endswith(f"lockstep-trainer: error: {problem}\n"), ended.err


def test_ranks_without_loopback_end_at_once(job):
    """In a network namespace whose interface lo is down. LibTorch would wait for longer than TIMEOUT_S."""
    ended = processes.run(["unshare", "--net", *job.command(ranks=2)], job.directory)
    assert ended.code == 75, ended.err
    assert ": this machine has no route to 127.0.0.1: is the interface 'lo' up?\n" in ended.err


def test_loopback_host_name_without_token_is_local(cluster, debian):
    alpha = cluster.hosts[0]
    endpoint = ["--rdzv-endpoint", f"alpha:{PORT}", "--rdzv-timeout", "4s"]
    cluster.start(alpha, token=None, options=endpoint, rest=SAY_MASTER)
    ended = cluster.finish(alpha)
    assert ended.code == 75
    assert "is loopback here (/etc/hosts): without a token only launchers of this machine can join" in ended.err


def test_loopback_host_name_is_rejected_as_local_addr(cluster, debian):
    cluster.start(cluster.hosts[0], options=["--local-addr", "alpha"], rest=SAY_MASTER)
    ended = cluster.finish(cluster.hosts[0])
    assert ended.code == 78
    assert "--local-addr alpha: resolves to 127.0.1.1 on this machine, which other nodes cannot reach" in ended.err


@pytest.mark.parametrize("choice", [["--interface", "eth0"], ["--local-addr", "fd99::1"], ["--interface", "second0"]])
def test_master_address_can_be_chosen(cluster, choice):
    """The endpoint is reached over eth0; the ranks use the address that the user chose."""
    alpha, beta = cluster.hosts
    alpha.add_interface("second0", "10.98.0.1")
    try:
        cluster.start(alpha, ranks=1, options=choice, rest=SAY_MASTER)
        cluster.start(beta, ranks=1, rest=SAY_MASTER)
        first, second = cluster.finish(alpha), cluster.finish(beta)
    finally:
        alpha.remove_interface("second0")
    address = {"eth0": alpha.address, "fd99::1": "fd99::1", "second0": "10.98.0.1"}[choice[1]]
    assert (first.out, second.out) == (f"[rank 0] {address}\n", f"[rank 1] {address}\n"), first.err + second.err


def test_ranks_are_numbered_by_node_local_first(cluster):
    """torchrun's static rendezvous; the second node joins first, and nodes may have different numbers of ranks."""
    alpha, beta = cluster.hosts
    for host, node_rank, ranks in ((beta, 1, 1), (alpha, 0, 2)):
        static = ["--master-addr", alpha.address, "--master-port", PORT, "--node-rank", node_rank]
        command = [LOCKSTEP, "launch", "-n", ranks, "--nnodes", 2, *static, *PRINT_RANK]
        env = processes.environment(LOCKSTEP_RDZV_TOKEN=TOKEN)
        cluster.launchers[host.name] = host.start(command, cluster.job.directory, env)
    first, second = cluster.finish(alpha), cluster.finish(beta)
    assert sorted(first.out.splitlines()) == ["[rank 0] 0/3 0 0 alpha", "[rank 1] 1/3 0 1 alpha"]
    assert second.out == "[rank 2] 2/3 1 0 beta\n"
    assert (first.code, second.code) == (0, 0), first.err + second.err


@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_coordinator_is_node_0_by_default(cluster):
    alpha, beta, gamma = cluster.hosts
    for host in (gamma, alpha, beta):
        cluster.start(host, ranks=1, rest=PRINT_RANK)
    outputs = [cluster.finish(host).out.split() for host in cluster.hosts]
    assert outputs[0][2:] == ["0/3", "0", "0", "alpha"]
    assert {words[2] for words in outputs} == {"0/3", "1/3", "2/3"}


def test_torchruns_flags_in_its_environment(cluster):
    alpha, beta = cluster.hosts
    for host in (alpha, beta):
        pet = {"PET_NNODES": 2, "PET_NPROC_PER_NODE": 1, "PET_RDZV_ID": "seven"}
        pet["PET_RDZV_ENDPOINT"] = f"{alpha.address}:{PORT}"
        env = processes.environment(LOCKSTEP_RDZV_TOKEN=TOKEN, **pet)
        command = [LOCKSTEP, "launch", *PRINT_RANK]
        cluster.launchers[host.name] = host.start(command, cluster.job.directory, env)
    assert cluster.finish(alpha).out == "[rank 0] 0/2 0 0 alpha\n"
    assert cluster.finish(beta).out == "[rank 1] 1/2 1 0 beta\n"


def test_token_is_read_from_a_file(cluster):
    made = processes.run([LOCKSTEP, "launch", "--new-token", "token"], cluster.job.directory)
    assert made.code == 0, made.err
    file = cluster.job.directory / "token"
    assert file.stat().st_mode & 0o777 == 0o600
    cluster.start_all(ranks=1, token=None, options=["--rdzv-token-file", file], rest=PRINT_RANK)
    assert [cluster.finish(host).code for host in cluster.hosts] == [0, 0]
    file.chmod(0o644)
    cluster.start(cluster.hosts[0], token=None, options=["--rdzv-token-file", file], rest=PRINT_RANK)
    ended = cluster.finish(cluster.hosts[0])
    assert ended.code == 78
    assert "readable by other users; run: chmod 600" in ended.err


def test_failure_on_another_host_is_reported_everywhere(cluster):
    script = 'if [ $RANK = 3 ]; then echo "no more paper" >&2; exit 5; fi; exec sleep 1000'
    cluster.start_all(rest=["--program", "sh", "--", "-c", script])
    first, second = (cluster.finish(host) for host in cluster.hosts)
    beta = f"beta ({cluster.hosts[1].address})"
    assert (first.code, second.code) == (5, 5)
    assert f"rank 3 (of 4) on {beta} failed first: exited with code 5\n  no more paper\n" in first.err
    assert "stopped as a result: ranks 0, 1, 2\n" in first.err
    assert f"logs: {beta}: " in first.err
    assert f"rank 3 (of 4) on {beta} failed first" in second.err


def test_program_missing_on_one_host_is_reported_everywhere(cluster):
    alpha, beta = cluster.hosts
    program = cluster.job.directory / "worker"
    for host in (alpha, beta):
        cluster.start(host, rest=["--program", program if host is beta else "sleep", "--", 1000])
    first, second = cluster.finish(alpha), cluster.finish(beta)
    assert (first.code, second.code) == (78, 78)
    assert f"node 1 on beta ({beta.address}): cannot start" in first.err
    assert "cannot start" in second.err


def test_logs_are_kept_when_the_coordinator_is_lost(cluster):
    rest = ["--program", "sh", "--", "-c", "echo here; exec sleep 1000"]
    cluster.start_all(ranks=1, options=["--tee", 0, "--run-id", "job"], rest=rest)
    log = cluster.job.directory / "runs" / "job" / "logs" / "node_1" / "attempt_0" / "0" / "stdout.log"
    wait_until(lambda: log.exists() and log.read_text() == "here\n", TIMEOUT_S, "the output of node 1")
    cluster.kill_launcher(cluster.hosts[0])
    ended = cluster.finish(cluster.hosts[1])
    assert ended.code == 75 and "which serves the rendezvous" in ended.err
    assert log.read_text() == "here\n"


def test_arguments_longer_than_a_message(cluster):
    files = [f"data/shard-{number:05}" for number in range(6000)]
    cluster.start_all(ranks=1, rest=["--", "sh", "-c", "echo $#", "sh", *files])
    assert [cluster.finish(host).code for host in cluster.hosts] == [0, 0]


def num_asleep(cluster):
    here = {pid for host in cluster.hosts for pid in host.pids()}
    return len(here & set(processes.find("sleep 1000")))


def test_sigterm_to_one_host_ends_all(cluster):
    for victim in cluster.hosts:
        cluster.start_all(rest=["--program", "sleep", "--", 1000])
        wait_until(lambda: num_asleep(cluster) == 4, TIMEOUT_S, "all ranks run")
        cluster.kill_launcher(victim, signal.SIGTERM)
        for host in cluster.hosts:
            ended = cluster.finish(host)
            if host is victim or victim is cluster.hosts[0]:
                assert ended.code == 128 + signal.SIGTERM
                assert "stopped by SIGTERM" in ended.err
            else:
                assert ended.code == 75
                assert "node 1 on beta" in ended.err and "stopped by SIGTERM" in ended.err


def refused(cluster, second_options=(), second_rest=None, **second):
    """The error of a second node that does not match, while the first waits; then a matching one joins."""
    alpha, beta = cluster.hosts[:2]
    first = cluster.start(alpha, ranks=1, rest=PRINT_RANK)
    cluster.start(beta, ranks=1, options=second_options, rest=second_rest or PRINT_RANK, **second)
    ended = cluster.finish(beta)
    assert first.poll() is None, "the job was affected"
    cluster.start(beta, ranks=1, rest=PRINT_RANK)
    assert cluster.finish(beta).code == 0
    unharmed = cluster.finish(alpha)
    assert unharmed.code == 0
    assert f"rejected beta ({beta.address}): " in unharmed.err or f"rejected {beta.address}: " in unharmed.err
    assert ended.code == 78
    assert ended.err.count("\n") == 1, ended.err
    return ended.err


def test_mismatched_node_counts(cluster):
    assert "--nnodes is '3' on beta" in refused(cluster, nodes=3)


def test_mismatched_job_id(cluster):
    assert "--rdzv-id is 'other' on beta" in refused(cluster, ["--rdzv-id", "other"])


def test_mismatched_arguments(cluster):
    rest = ["--program", "sh", "--", "-c", "echo something else that is rather long, forty or more"]
    assert "the list of overrides and arguments differs between beta" in refused(cluster, second_rest=rest)


def test_wrong_token(cluster):
    err = refused(cluster, token="another secret, as long as that")
    assert "this node does not have the job's token" in err


def test_missing_token(cluster):
    cluster.start(cluster.hosts[1], token=None, rest=PRINT_RANK)
    ended = cluster.finish(cluster.hosts[1])
    assert ended.code == 78
    assert "lockstep launch --new-token FILE" in ended.err


def test_duplicate_node_rank(cluster):
    alpha, beta = cluster.hosts
    cluster.start(alpha, ranks=1, options=["--node-rank", 0], rest=PRINT_RANK)
    cluster.start(beta, ranks=1, options=["--node-rank", 0], rest=PRINT_RANK)
    ended = cluster.finish(beta)
    assert ended.code == 78
    assert f"--node-rank 0 is already used by alpha ({alpha.address})" in ended.err
    cluster.start(beta, ranks=1, options=["--node-rank", 1], rest=PRINT_RANK)
    assert [cluster.finish(host).code for host in (alpha, beta)] == [0, 0]


@pytest.mark.parametrize("change", ["run file", "build"])
def test_mismatched_run_file_or_build(job, cluster, change):
    alpha, beta = cluster.hosts
    other = job.directory / "other"
    other.mkdir()
    cluster.start(alpha, "train.max_steps=2")
    command = [LOCKSTEP, job.file]
    if change == "run file":
        (other / "run.yaml").write_text(job.file.read_text() + "# another\n")
        command = [LOCKSTEP, other / "run.yaml"]
    else:
        shutil.copy2(LOCKSTEP, other / "lockstep")
        (other / "lockstep-trainer").write_text("#!/bin/sh\n")
        command = [other / "lockstep", job.file]
    command[1:1] = ["launch", "-n", 2, "--nnodes", 2, "--rdzv-endpoint", f"{alpha.address}:{PORT}"]
    env = processes.environment(LOCKSTEP_RDZV_TOKEN=TOKEN)
    ended = processes.finish(beta.start([*command, "train.max_steps=2"], job.directory, env))
    assert ended.code == 78
    assert f"the {change}{' of lockstep-trainer' if change == 'build' else ''} differs between" in ended.err
    cluster.start(beta, "train.max_steps=2")
    assert [cluster.finish(host).code for host in (alpha, beta)] == [0, 0]


def test_unreachable_endpoint(cluster):
    beta = cluster.hosts[1]
    for endpoint in ("10.99.0.1:29401", "10.99.0.77:29400", "no-such-host:29400"):
        options = ["--rdzv-timeout", "1s", "--rdzv-endpoint", endpoint]
        cluster.start(beta, options=options, rest=PRINT_RANK)
        ended = cluster.finish(beta)
        assert ended.code == 75
        assert f"cannot reach the rendezvous at {endpoint} within 1 s: " in ended.err


def test_missing_nodes(cluster):
    cluster.start(cluster.hosts[0], options=["--rdzv-timeout", "1s"], rest=PRINT_RANK)
    ended = cluster.finish(cluster.hosts[0])
    assert ended.code == 75
    assert "timed out after 1 s: 1 of 2 required nodes joined" in ended.err


UNAUTHENTICATED = """
import socket, sys, time
address, kind, latest = (sys.argv[1], int(sys.argv[2])), sys.argv[3], time.monotonic() + float(sys.argv[5])

def connect():
    while True:
        try:
            return socket.create_connection(address, 5)
        except ConnectionRefusedError:  # the launcher does not listen yet
            if time.monotonic() > latest:
                raise
            time.sleep(0.02)

held = []
for number in range(int(sys.argv[4])):
    client = connect()
    try:
        if kind == "garbage":
            client.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n" * 1000)
        if kind == "huge":
            client.sendall(b"\\x7f\\xff\\xff\\xff" + b"{" * 100000)
        if kind == "slow":
            client.sendall(b"\\0\\0")
    except OSError:
        pass
    held.append(client)
print("here", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind, count", [("garbage", 20), ("huge", 20), ("slow", 600), ("silent", 600)])
def test_unauthenticated_connections(cluster, kind, count):
    """They connect before the nodes do, and stay; the rendezvous succeeds anyway."""
    alpha, beta = cluster.hosts
    cluster.start(alpha, ranks=1, rest=PRINT_RANK)
    client = beta.start(
        [sys.executable, "-c", UNAUTHENTICATED, alpha.address, PORT, kind, count, TIMEOUT_S],
        cluster.job.directory,
        stdin=subprocess.PIPE,
    )
    try:
        assert client.stdout.readline() == "here\n"
        cluster.start(beta, ranks=1, rest=PRINT_RANK)
        assert [cluster.finish(host).code for host in (beta, alpha)] == [0, 0]
    finally:
        client.kill()
        client.communicate(timeout=TIMEOUT_S)


OTHER_PORT = 29499


@contextlib.contextmanager
def another_program(host, greeting):
    """Listens at OTHER_PORT of `host`, and closes connections if `greeting` is empty."""
    serve = f"import socket,sys; s=socket.create_server((sys.argv[1],{OTHER_PORT})); print('here',flush=True)\n"
    serve += "while True: c,_=s.accept(); c.sendall(sys.argv[2].encode()); sys.argv[2] and c.recv(1); c.close()"
    other = host.start([sys.executable, "-c", serve, host.address, greeting], "/")
    try:
        assert other.stdout.readline() == "here\n"
        yield ["--rdzv-endpoint", f"{host.address}:{OTHER_PORT}", "--rdzv-timeout", "1s"]
    finally:
        other.kill()
        other.communicate(timeout=TIMEOUT_S)


SSH = "SSH-2.0-OpenSSH\r\n"


def test_another_program_listens_at_the_endpoint(cluster):
    alpha, beta = cluster.hosts
    with another_program(alpha, SSH) as options:
        cluster.start(beta, options=options, rest=PRINT_RANK)
        ended = cluster.finish(beta)
    assert ended.code == 78
    assert "is not a Lockstep rendezvous" in ended.err


@pytest.mark.parametrize("greeting, reported", [
    (SSH, f"another program uses port {OTHER_PORT} of this host; choose another port, the same on every node"),
    ("", "within 1 s: the connection was closed; another program on this host may use that port"),
], ids=["speaks", "hangs up"])
def test_another_program_listens_at_the_coordinator_port(cluster, greeting, reported):
    alpha = cluster.hosts[0]
    with another_program(alpha, greeting) as options:
        cluster.start(alpha, options=options, rest=PRINT_RANK)
        ended = cluster.finish(alpha)
    assert ended.code == 75
    (line,) = ended.err.splitlines()
    assert f"the rendezvous at {alpha.address}:{OTHER_PORT}" in line and reported in line


def test_secret_is_not_leaked(job, cluster):
    """Not in what is printed, logged or recorded, and not in the environment of the ranks."""
    script = "env; cat /proc/$PPID/cmdline; touch here$RANK; exec sleep 1000"
    cluster.start_all(ranks=1, rest=["--program", "sh", "--", "-c", script])
    here = [job.directory / f"here{rank}" for rank in (0, 1)]
    wait_until(lambda: all(path.exists() for path in here), TIMEOUT_S, "both ranks run")
    assert not processes.find(TOKEN)
    cluster.kill_launcher(cluster.hosts[0], signal.SIGTERM)
    for host in cluster.hosts:
        ended = cluster.finish(host)
        assert TOKEN not in ended.out + ended.err
    files = [path for path in job.directory.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]
