"""lockstep launch --hostfile: launchers on other hosts through real OpenSSH (ssh_hosts.py)."""

import os
import re
import signal

import pytest

import processes
from processes import LOCKSTEP, TIMEOUT_S, find, ranks_of, wait_until
from safetensors_file import assert_same_bits, last_weights
from ssh_hosts import HOSTS, SshHosts, make_key

STEPS = "train.max_steps=6"
ENDLESS = ["train.epochs=100000", "checkpoint.every=20 steps"]
GONE_S = 60


@pytest.fixture(scope="module")
def hosts():
    ssh_hosts = SshHosts()
    yield ssh_hosts
    ssh_hosts.stop()


def hostfile(job, *lines):
    path = job.directory / "hosts"
    path.write_text("".join(f"{line}\n" for line in lines or [f"{h} slots=2" for h in HOSTS]))
    return path


def launch_command(job, *overrides, file=None, options=()):
    file = file or hostfile(job)
    return [LOCKSTEP, "launch", "--hostfile", file, *options, job.file, *overrides]


def launch(hosts, job, *overrides, file=None, options=(), **changes):
    command = launch_command(job, *overrides, file=file, options=options)
    return hosts.run(command, job.directory, **changes)


def start_endless(hosts, job, file=None):
    process = hosts.start(launch_command(job, *ENDLESS, file=file), job.directory)
    try:
        wait_until(lambda: list(job.runs.glob("*/checkpoints/[0-9]*")), TIMEOUT_S, "a first checkpoint")
        assert process.poll() is None
        assert sorted(ranks_of(job.directory)) == [0, 1, 2, 3]
    except AssertionError:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process


def error_of(ended):
    """The single error line of a launch that failed to start."""
    lines = ended.err.splitlines()
    assert len(lines) == 1, ended.err
    assert lines[0].startswith("lockstep: error: ")
    return lines[0]


def test_two_hosts_are_bit_identical_to_one(hosts, job):
    ended = launch(hosts, job, STEPS)
    assert ended.code == 0, ended.err
    assert ended.err == ""
    (run_dir,) = job.runs.iterdir()
    (entry,) = job.list()
    assert (entry["state"], entry["world_size"]) == ("finished", 4)
    assert all(line.startswith("[127.0.0.") for line in ended.out.splitlines()), ended.out
    assert any(line.startswith("[127.0.0.2] [rank 0] ") for line in ended.out.splitlines())
    assert_same_bits(last_weights(run_dir), last_weights(job.train(STEPS, ranks=4)))


def test_a_run_file_with_another_ending(job):
    run_file = job.file.rename(job.directory / "run.conf")
    ended = processes.run([LOCKSTEP, "launch", "--hostfile", hostfile(job, "localhost slots=1"), run_file, STEPS], job.directory)
    assert ended.code == 0, ended.err
    assert job.list()[0]["state"] == "finished"


def test_ssh_configuration_of_the_user_is_used(hosts, job):
    """`first` is defined in ~/.ssh/config; the other line specifies user and port."""
    file = hostfile(job, "first", f"root@127.0.0.3:{hosts.port}")
    options = ["-n", 1, "--master-addr", "127.0.0.2"]
    ended = launch(hosts, job, STEPS, file=file, options=options)
    assert ended.code == 0, ended.err
    assert any(line.startswith("[first] [rank 0] ") for line in ended.out.splitlines())
    assert [entry["world_size"] for entry in job.list()] == [2]


def test_local_machine_as_host(hosts, job):
    file = hostfile(job, "localhost slots=1", "127.0.0.3 slots=1")
    ended = launch(hosts, job, STEPS, file=file)
    assert ended.code == 0, ended.err
    assert any(line.startswith("[localhost] [rank 0] ") for line in ended.out.splitlines())
    wait_until(lambda: not hosts.sessions(), TIMEOUT_S, "sshd has closed its sessions")
    assert [entry["world_size"] for entry in job.list()] == [2]


def test_directory_and_exported_variables_are_passed_off_the_command_line(hosts, job):
    secret = os.urandom(16).hex()
    show = 'echo "at $PWD with $MY_SECRET"; printf %s "$MY_SECRET" | grep -laf - /proc/[0-9]*/cmdline; true'
    command = [LOCKSTEP, "launch", "--hostfile", hostfile(job), "-n", 1, "--export", "MY_SECRET"]
    command += ["--program", "/bin/sh", "--", "-c", show]
    ended = hosts.run(command, job.directory, MY_SECRET=secret)
    assert ended.code == 0, ended.err
    expected = [
        f"[{host}] [rank {rank}] at {job.directory} with {secret}"
        for rank, host in enumerate(HOSTS)
    ]
    assert sorted(ended.out.splitlines()) == expected


def test_a_program_after_two_dashes(hosts, job):
    command = [LOCKSTEP, "launch", "--hostfile", hostfile(job), "-n", 1, "--", "/bin/sh", "-c", "echo rank $RANK"]
    ended = hosts.run(command, job.directory)
    assert ended.code == 0, ended.err
    assert sorted(ended.out.splitlines()) == [f"[{host}] [rank {rank}] rank {rank}" for rank, host in enumerate(HOSTS)]


def test_a_killed_connection_to_the_only_host_is_a_failure(hosts, job):
    process = hosts.start(launch_command(job, *ENDLESS, file=hostfile(job, "localhost slots=1")), job.directory)
    wait_until(lambda: list(job.runs.glob("*/checkpoints/[0-9]*")), TIMEOUT_S, "a first checkpoint")
    (guard,) = [pid for pid in find("launch-node") if processes.parent_of(pid) == process.pid]
    os.kill(guard, signal.SIGKILL)
    ended = processes.finish(process, GONE_S)
    assert ended.code == 75, ended.err
    assert "lost the connection to localhost" in ended.err
    wait_until(lambda: not find(job.directory), GONE_S, "the launcher of the host has ended its rank")


def test_the_token_is_on_no_command_line(hosts, job):
    """The launchers on the hosts have it in their environment; the ranks do not have it at all."""
    process = start_endless(hosts, job)
    lines = find(job.directory)
    tokens = {pid: processes.variables_of(pid).get("LOCKSTEP_RDZV_TOKEN") for pid in lines}
    trainers = ranks_of(job.directory).values()
    in_sight = [found for token in {*tokens.values()} - {None} for found in find(token)]
    os.kill(process.pid, signal.SIGTERM)
    processes.finish(process, GONE_S)
    assert len({*tokens.values()} - {None}) == 1, lines
    assert len(next(iter({*tokens.values()} - {None}))) == 64
    assert not in_sight
    assert not any(tokens[pid] for pid in trainers)


def test_exporting_an_unset_variable_fails(hosts, job):
    ended = launch(hosts, job, STEPS, options=["--export", "NOT_THERE"])
    assert ended.code == 78
    assert "--export NOT_THERE: environment variable is not set" in error_of(ended)


# ---- start-up errors


def test_rejected_key(hosts, job):
    make_key(job.directory / "other")
    ssh = f"ssh -i {job.directory}/other -o IdentityFile=none"
    (hosts.directory / "no_config").write_text(
        f"UserKnownHostsFile {hosts.directory}/known_hosts\nPort {hosts.port}\n"
    )
    ssh = f"ssh -F {hosts.directory}/no_config -o IdentityAgent=none -i {job.directory}/other"
    ended = launch(hosts, job, STEPS, options=["--ssh", ssh])
    assert ended.code == 78
    error = error_of(ended)
    assert "cannot start on 127.0.0." in error and "Permission denied" in error
    assert "authorized_keys" in error
    assert not job.runs.exists()


def test_unknown_host_key(hosts, job):
    ended = launch(hosts, job, STEPS, options=["--ssh", "ssh -o UserKnownHostsFile=/dev/null"])
    assert ended.code == 78
    error = error_of(ended)
    assert "Host key verification failed" in error and "connect once manually" in error


def test_connection_refused(hosts, job):
    file = hostfile(job, HOSTS[0], f"127.0.0.3:{processes.free_port()}")
    ended = launch(hosts, job, STEPS, file=file)
    assert ended.code == 75
    error = error_of(ended)
    assert "cannot start on 127.0.0.3" in error and "Connection refused" in error
    assert "check that the host is up" in error


def test_unknown_host_name(hosts, job):
    ended = launch(hosts, job, STEPS, file=hostfile(job, HOSTS[0], "no-such-host.invalid"))
    assert ended.code in (75, 78)
    assert "cannot start on no-such-host.invalid" in error_of(ended)


def test_lockstep_is_missing(hosts, job):
    ended = launch(hosts, job, STEPS, options=["--remote-lockstep", "/nowhere/lockstep"])
    assert ended.code == 78
    error = error_of(ended)
    assert "/nowhere/lockstep was not found there" in error and "--remote-lockstep" in error


def test_ssh_is_missing(hosts, job):
    ended = launch(hosts, job, STEPS, options=["--ssh", "/nowhere/ssh"])
    assert ended.code == 78
    assert "cannot start '/nowhere/ssh'" in error_of(ended)


def test_invalid_hostfile_is_reported_in_one_line(hosts, job):
    ended = launch(hosts, job, STEPS, file=hostfile(job, "a", "b slot=3"))
    assert ended.code == 78
    assert "hosts:2: unexpected 'slot=3'" in error_of(ended)
    ended = launch(hosts, job, STEPS, file=job.directory / "none")
    assert ended.code == 78
    assert "there is no such file" in error_of(ended)


def test_invalid_run_file_is_reported_by_hosts(hosts, job):
    ended = launch(hosts, job, "model.name=mpl")
    assert ended.code == 78, ended.err
    assert "did you mean 'mlp'?" in ended.err
    assert not list(job.runs.glob("*/run.json"))


# ---- failures and signals


def test_dead_rank_on_one_host_ends_all(hosts, job):
    process = start_endless(hosts, job)
    os.kill(ranks_of(job.directory)[3], signal.SIGKILL)
    ended = processes.finish(process, GONE_S)
    assert ended.code == 75, ended.err
    assert re.search(r"rank 3 \(of 4\) on .+ failed first: killed by SIGKILL", ended.err)
    assert ended.err.splitlines()[-1] == "lockstep: the job failed with code 75; see the report of 127.0.0.2"
    wait_until(lambda: not find(job.directory), GONE_S, "every process is gone")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_local_signal_ends_all(hosts, job, number):
    process = start_endless(hosts, job)
    os.kill(process.pid, number)
    ended = processes.finish(process, GONE_S)
    assert ended.code == 128 + number
    assert f"stopped by {number.name}" in ended.err.splitlines()[-1]
    wait_until(lambda: not find(job.directory), GONE_S, "every process is gone")
    assert [entry["state"] for entry in job.list()] == ["preempted"]


@pytest.mark.parametrize("first", [HOSTS[0], "localhost"])
def test_killed_launch_leaves_no_process_on_any_host(hosts, job, first):
    process = start_endless(hosts, job, file=hostfile(job, f"{first} slots=2", f"{HOSTS[1]} slots=2"))
    os.kill(process.pid, signal.SIGKILL)
    assert processes.finish(process, GONE_S).code == -signal.SIGKILL
    wait_until(lambda: not find(job.directory), GONE_S, "every process is gone")
    # Remote launchers notice and stop their ranks cleanly; local ranks die with the launcher.
    ended_as = "killed" if first == "localhost" else "preempted"
    assert [entry["state"] for entry in job.list()] == [ended_as]


def test_lost_connection_ends_all(hosts, job):
    process = start_endless(hosts, job)
    os.kill(hosts.sessions()[0], signal.SIGKILL)
    ended = processes.finish(process, GONE_S)
    assert ended.code == 75, ended.err
    assert "lost the connection to 127.0.0." in ended.err
    wait_until(lambda: not find(job.directory), GONE_S, "every process is gone")


def test_trials_of_a_sweep_run_on_the_hosts(hosts, job):
    """Each trial on both; another number of ranks per host is refused."""
    job.config["tracking"] = {"agent": False}
    job.write()
    file = hostfile(job)
    sweep = job.directory / "sweep.yaml"
    sweep.write_text("run: run.yaml\noverrides: [train.max_steps=6]\nobjective: {metric: eval/loss}\n"
                     "space: {optimizer.lr: {choice: [0.1, 0.2]}}\nsearch: {name: grid}\n")
    ended = hosts.run([LOCKSTEP, "sweep", sweep, "--", "--hostfile", file], job.directory)
    assert ended.code == 0, ended.err
    runs = job.list()
    assert [(run["state"], run["world_size"]) for run in runs] == [("finished", 4)] * 2
    for run in runs:
        assert sorted(path.name for path in (job.runs / run["id"] / "logs").iterdir()) == ["node_0", "node_1"]
    other = hosts.run([LOCKSTEP, "sweep", sweep, "-n", 1, "--", "--hostfile", file], job.directory)
    assert (other.code, error_of(other)) == (78, "lockstep: error: the sweep 'sweep' exists with another number of ranks; to start a new sweep, choose another name")


