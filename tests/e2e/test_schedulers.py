"""Ranks started by other launchers: Slurm, mpirun of OpenMPI and of MPICH, torchrun, and an indexed Job of Kubernetes.

Slurm is a real cluster of two nodes on this machine (slurm_cluster.py); mpirun is that of Debian. Kubernetes is simulated by
the environment that the manifest sets for a pod.
"""

import re
import shlex
import shutil
import sys
import time

import pytest
import yaml

import processes
from network import Network
from processes import BIN, LOCKSTEP, TIMEOUT_S, SOURCE, TRAINER, find, wait_until
from safetensors_file import assert_same_bits, checkpoints, last_weights
from slurm_cluster import SlurmCluster
from test_sweep import Sweep

STEPS = "train.max_steps=6"
ENDLESS = ["train.epochs=100000", "checkpoint.every=20 steps", "tracking.ranks=main"]
EXAMPLES = SOURCE / "examples"


@pytest.fixture(scope="module")
def slurm():
    cluster = SlurmCluster()
    yield cluster
    cluster.stop()


def assert_one_run(job, world_size):
    """Checks that there is one directory and one entry, with `world_size` ranks. Returns the directory."""
    run_dir = job.only_run()
    (entry,) = job.list()
    assert (entry["id"], entry["state"]) == (run_dir.name, "finished")
    assert entry["world_size"] == world_size
    return run_dir


def assert_trained_as_launched(job, run_dir, ranks):
    """The weights equal those of the same number of ranks under `lockstep launch`."""
    ours = job.train(STEPS, ranks=ranks)
    assert_same_bits(last_weights(run_dir), last_weights(ours))


# ---- Slurm


def test_srun_trains_on_all_tasks(slurm, job):
    ended = slurm.run(["srun", "-N2", "-n4", TRAINER, job.file, STEPS], job.directory)
    assert ended.code == 0, ended.err
    run_dir = assert_one_run(job, world_size=4)
    assert run_dir.name.startswith("e2e-slurm-") and run_dir.name.endswith("-0")
    assert ended.out.count("done:") == 1
    assert_trained_as_launched(job, run_dir, ranks=4)


def test_srun_sets_node_ranks(slurm, job):
    command = ["srun", "-N2", "-n4", TRAINER, job.file, STEPS, "tracking.ranks=node"]
    ended = slurm.run(command, job.directory)
    assert ended.code == 0, ended.err
    job.only_run()
    assert sorted(entry["rank"] for entry in job.list()) == [0, 2]


def test_srun_starts_a_launcher_on_each_node(slurm, job):
    command = ["srun", "-N2", "--ntasks-per-node=1", LOCKSTEP, "launch", "-n", 2, job.file, STEPS]
    ended = slurm.run(command, job.directory)
    assert ended.code == 0, ended.err
    run_dir = assert_one_run(job, world_size=4)
    assert sorted(path.name for path in (run_dir / "logs").iterdir()) == ["node_0", "node_1"]
    assert "[rank 0] " in ended.out
    assert_trained_as_launched(job, run_dir, ranks=4)


def test_job_token_is_private_and_on_no_command_line(slurm, job):
    command = ["srun", "-N2", "--ntasks-per-node=1", LOCKSTEP, "launch", "-n", 1, job.file, *ENDLESS]
    srun = slurm.start(command, job.directory)
    wait_until(lambda: list(job.runs.glob("*/checkpoints/[0-9]*")), TIMEOUT_S, "a first checkpoint")
    (file,) = job.runs.glob(".lockstep-slurm-*.token")
    token, mode = file.read_text().strip(), file.stat().st_mode & 0o777
    in_sight = find(token)
    ranks = [processes.variables_of(pid) for pid in processes.ranks_of(job.file).values()]
    number = file.name.split("-")[2]
    assert slurm.run(["scancel", "--signal=TERM", number], job.directory).code == 0
    processes.finish(srun)
    wait_until(lambda: not find(job.file), TIMEOUT_S, "every process is gone")
    assert (len(token), mode) == (64, 0o600)
    assert not in_sight
    assert len(ranks) == 2 and not any(token in variables.values() for variables in ranks)
    assert not file.exists()


def test_srun_with_a_launcher_per_rank_is_rejected_with_a_hint(slurm, job):
    command = ["srun", "-N2", "-n4", LOCKSTEP, "launch", "-n", 2, job.file, STEPS]
    ended = slurm.run(command, job.directory)
    assert ended.code == 78, ended.err
    assert "give srun --ntasks-per-node=1" in ended.err
    assert not job.runs.exists()


def test_batch_script_of_the_examples(slurm, job):
    path = f"{BIN}:{slurm.environment()['PATH']}"
    command = ["sbatch", "--wait", "--output=job.out", "--parsable"]
    command += [EXAMPLES / "slurm" / "train.sbatch", job.file, STEPS]
    ended = slurm.run(command, job.directory, PATH=path)
    output = (job.directory / "job.out").read_text()
    assert ended.code == 0, output
    run_dir = assert_one_run(job, world_size=4)
    assert run_dir.name == f"e2e-slurm-{ended.out.split()[0]}-0"


def test_launch_in_a_batch_script_uses_one_node(slurm, job):
    """Without srun, the script runs on the first node only, whatever the size of the job."""
    script = job.directory / "job.sh"
    script.write_text(f"#!/bin/sh\n{LOCKSTEP} launch -n 2 {job.file} {STEPS}\n")
    command = ["sbatch", "--wait", "-N2", "--ntasks-per-node=2", "--output=job.out", script]
    ended = slurm.run(command, job.directory)
    assert ended.code == 0, (job.directory / "job.out").read_text()
    assert_one_run(job, world_size=2)


@pytest.mark.parametrize("launched", [False, True], ids=["ranks", "launchers"])
def test_scancel_ends_all_processes(slurm, job, launched):
    tasks = ["-n2", LOCKSTEP, "launch", "-n", 2] if launched else ["-n4", TRAINER]
    srun = slurm.start(["srun", "-N2", *tasks, job.file, *ENDLESS], job.directory)
    wait_until(lambda: list(job.runs.glob("*/checkpoints/[0-9]*")), TIMEOUT_S, "a first checkpoint")
    number = job.only_run().name.split("-")[2]
    assert slurm.run(["scancel", "--signal=TERM", number], job.directory).code == 0
    ended = processes.finish(srun)
    assert ended.code != 0
    wait_until(lambda: not find(job.file), TIMEOUT_S, "every process is gone")
    (entry,) = job.list()
    assert entry["state"] == "preempted"


@pytest.mark.parametrize("why", [["scontrol", "requeue"], ["scancel", "--signal=TERM"]], ids=["requeued", "preempted"])
def test_requeued_job_resumes_its_run(slurm, job, why):
    """SIGTERM to the steps is what preemption with a grace period sends, and --signal before the time limit."""
    command = ["sbatch", "--output=job.out", "--parsable"]
    command += [EXAMPLES / "slurm" / "train.sbatch", job.file, *ENDLESS]
    path = f"{BIN}:{slurm.environment()['PATH']}"
    number = slurm.run(command, job.directory, PATH=path).out.strip()
    wait_until(lambda: list(job.runs.glob("*/checkpoints/[0-9]*")), TIMEOUT_S, "a first checkpoint")
    assert slurm.run([*why, number], job.directory).code == 0

    def shown():
        return slurm.run(["scontrol", "show", "job", number], job.directory).out

    def has_left_queue():
        return not slurm.run(["squeue", "--noheader", "--jobs", number], job.directory).out.strip()

    # By default, Slurm holds a requeued job for two minutes. The credential of the second start must be newer than the time,
    # in whole seconds, at which the first one was revoked.
    wait_until(lambda: "JobState=PENDING" in shown(), TIMEOUT_S, "the job is in the queue again")
    queued = time.time()
    wait_until(lambda: int(time.time()) > int(queued), TIMEOUT_S, "the next second")
    slurm.run(["scontrol", "update", f"JobId={number}", "StartTime=now"], job.directory)
    wait_until(lambda: "JobState=RUNNING" in shown(), 2 * TIMEOUT_S, "the job runs again")  # Slurm takes its time
    assert "Restarts=1" in shown()
    run_dir = job.only_run()
    saved = checkpoints(run_dir)[-1]
    wait_until(lambda: checkpoints(run_dir)[-1] > saved, TIMEOUT_S, "a checkpoint of the second start")
    job.query("stop", run_dir.name)
    wait_until(has_left_queue, TIMEOUT_S, "the job has left the queue")
    assert_one_run(job, world_size=4)
    steps = [step for step, _ in job.series(run_dir.name, "train/loss")]
    assert steps == sorted(set(steps))
    assert (run_dir / "logs" / "node_1" / "attempt_1").is_dir()
    wait_until(lambda: not find(job.file), TIMEOUT_S, "every process is gone")


def test_tasks_of_an_array_run_one_sweep(slurm, job):
    """Each trial once, although one of the tasks is canceled: another one continues its trial."""
    long, short = (["train.max_steps=1000000"], ["train.max_steps=4"])
    sweep = Sweep(job, "array", space={"train.max_steps": {"choice": [4, 1000000]}}, budget={"trials": 6},
                  overrides=["train.epochs=1000000", "train.eval_every=4 steps", "checkpoint.every=20 steps"])
    sweep.create(long, long, long, short, short, short)
    command = ["sbatch", "--array=0-2", "--output=task-%a.out", "--parsable", EXAMPLES / "slurm" / "sweep.sbatch", sweep.file]
    number = slurm.run(command, job.directory, PATH=f"{BIN}:{slurm.environment()['PATH']}").out.strip()

    def runs(state):
        return [run["id"] for run in job.list() if run["state"] == state]

    def is_in_queue(tasks):
        return bool(slurm.run(["squeue", "--noheader", "--jobs", tasks], job.directory).out.strip())

    # Each task has a long trial, so it takes no other before that is stopped.
    wait_until(lambda: len({path.parts[-3] for path in job.runs.glob("*/checkpoints/[0-9]*")}) == 3, TIMEOUT_S, "three checkpoints")
    assert slurm.run(["scancel", f"{number}_1"], job.directory).code == 0
    wait_until(lambda: not is_in_queue(f"{number}_1"), TIMEOUT_S, "the canceled task has left the queue")
    (left,), (first, second) = runs("preempted"), runs("running")
    saved = checkpoints(job.runs / left)[-1]
    job.query("stop", first)
    wait_until(lambda: checkpoints(job.runs / left)[-1] > saved, TIMEOUT_S, "another task continues the trial that was left")
    job.query("stop", left)
    job.query("stop", second)
    wait_until(lambda: not is_in_queue(number), TIMEOUT_S, "all tasks have left the queue")

    outputs = [(job.directory / f"task-{task}.out").read_text() for task in range(3)]
    shown = sweep.json("show")
    assert shown["state"] == "done" and shown["counts"]["finished"] == 6, outputs
    assert sorted(runs("finished")) == sorted(run for trial in shown["trials"] for run in trial["runs"])
    ended = [re.findall(r"^trial (\d+)  finished", output, re.MULTILINE) for output in outputs]
    assert sorted(sum(ended, [])) == list("012345")
    assert ended[0] and not ended[1] and ended[2]
    steps = [step for step, _ in job.series(left, "eval/loss")]
    assert steps == sorted(set(steps))  # it was continued, not started again


# ---- mpirun

MPIRUNS = {
    "openmpi": ["mpirun.openmpi", "--oversubscribe"],
    "mpich": ["mpirun.mpich"],
}
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": 1, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": 1}


def mpirun(kind, job, command, ranks=2):
    program = MPIRUNS[kind]
    assert shutil.which(program[0]), f"{program[0]} is missing: run cmake/setup.sh --peers"
    return processes.start(
        [*program, "-n", ranks, *command], job.directory, processes.environment(**MPI_ENVIRONMENT)
    )


@pytest.mark.parametrize("kind", MPIRUNS)
def test_mpirun_trains_without_address_settings(kind, job):
    ended = processes.finish(mpirun(kind, job, [TRAINER, job.file, STEPS]))
    assert ended.code == 0, ended.err
    run_dir = assert_one_run(job, world_size=2)
    assert ended.out.count("done:") == 1
    assert_trained_as_launched(job, run_dir, ranks=2)


@pytest.mark.parametrize("kind", MPIRUNS)
def test_mpirun_of_a_wrapper_script(kind, job):
    script = job.directory / "train.sh"
    script.write_text(f'#!/bin/sh\n"{TRAINER}" "$@"\ncode=$?\nexit $code\n')
    script.chmod(0o755)
    ended = processes.finish(mpirun(kind, job, [script, job.file, STEPS]))
    assert ended.code == 0, ended.err
    assert_one_run(job, world_size=2)


@pytest.mark.parametrize("kind", MPIRUNS)
def test_concurrent_mpiruns_are_two_runs(kind, job):
    started = [mpirun(kind, job, [TRAINER, job.file, STEPS]) for _ in range(2)]
    for process in started:
        ended = processes.finish(process)
        assert ended.code == 0, ended.err
    assert [entry["world_size"] for entry in job.list()] == [2, 2]


@pytest.fixture
def hosts(tmp_path):
    """alpha and beta, with /etc/hosts as on Debian."""
    network = Network(2)
    network.write_hosts_files(tmp_path)
    yield network.hosts
    network.close()


@pytest.mark.parametrize("kind", MPIRUNS)
def test_mpirun_on_two_hosts(kind, job, hosts):
    """As in docs/clusters.md; instead of ssh, a script starts mpirun's daemon on the other host."""
    alpha, beta = hosts
    agent = job.directory / "agent"
    start = " ".join(shlex.quote(str(word)) for word in beta.command(["sh", "-c"]))
    agent.write_text(f'#!/bin/sh\ntest "$1" = beta || exit 9\nshift\nexec {start} "$*"\n')
    agent.chmod(0o755)
    if kind == "openmpi":
        how = ["--host", "alpha:1,beta:1", "--mca", "plm_rsh_agent", agent, "-x", "MASTER_ADDR=alpha"]
    else:
        how = ["-launcher", "rsh", "-launcher-exec", agent, "-hosts", "alpha,beta"]
        how += ["-genv", "MASTER_ADDR", "alpha", "-genv", "MASTER_PORT", 29500]
    command = [MPIRUNS[kind][0], *how, "-n", 2, TRAINER, job.file, STEPS]
    started = alpha.start(command, job.directory, processes.environment(**MPI_ENVIRONMENT))
    ended = processes.finish(started)
    assert ended.code == 0, ended.err
    run_dir = assert_one_run(job, world_size=2)
    assert_trained_as_launched(job, run_dir, ranks=2)


# ---- torchrun


def test_torchrun_on_two_nodes(job):
    """Two torchrun agents with one rank each; the first serves the store."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nnodes", 2]
    torchrun += ["--nproc-per-node", 1, "--master-addr", "127.0.0.1"]
    torchrun += ["--master-port", processes.free_port()]
    command = [TRAINER, job.file, STEPS, "tracking.ranks=node"]
    nodes = [
        processes.start([*torchrun, "--node-rank", node, *command], job.directory)
        for node in range(2)
    ]
    for node in nodes:
        ended = processes.finish(node)
        assert ended.code == 0, ended.err
    assert sorted(entry["rank"] for entry in job.list()) == [0, 1]
    assert_trained_as_launched(job, job.only_run(), ranks=2)


# ---- Kubernetes


@pytest.fixture(scope="module")
def manifest():
    documents = list(yaml.safe_load_all((EXAMPLES / "kubernetes" / "mnist.yaml").read_text()))
    return {document["kind"]: document for document in documents}


def test_manifest_is_consistent(manifest):
    service, job = manifest["Service"], manifest["Job"]
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {entry["name"]: entry for entry in container["env"]}
    name = job["metadata"]["name"]
    # Pods are named by a headless service that selects them.
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert variables["MASTER_ADDR"]["value"] == f"{name}-0.{service['metadata']['name']}"
    # Each index is a node; all start at the same time.
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == int(variables["NNODES"]["value"])
    # The token comes from a secret, not from the manifest.
    secret = variables["LOCKSTEP_RDZV_TOKEN"]
    assert "value" not in secret and secret["valueFrom"]["secretKeyRef"]["key"] == "token"
    # Invalid input fails the Job; any other failure starts a new pod. A failure policy requires `Never`.
    assert pod["restartPolicy"] == "Never"
    fail, ignore = spec["podFailurePolicy"]["rules"]
    assert fail["action"] == "FailJob" and fail["onExitCodes"]["values"] == [78]
    assert fail["onExitCodes"]["containerName"] == container["name"]
    assert ignore["action"] == "Ignore"
    # Every variable of the command is set, and every mounted volume exists.
    command = " ".join(container["command"])
    used = set(re.findall(r"\$\((\w+)\)", command))
    assert used == {"JOB_UID", "POD_IP"} and used <= set(variables)
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def pod_environment(manifest, index, **changes):
    """Environment of the manifest's container as pod `index`; names of pods resolve to this machine."""
    (container,) = manifest["Job"]["spec"]["template"]["spec"]["containers"]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    variables.update(JOB_COMPLETION_INDEX=index, JOB_UID="6f1f8a52", LOCKSTEP_RDZV_TOKEN="s" * 64)
    variables.update(POD_IP="127.0.0.1")
    variables.update(changes)
    return processes.environment(**variables)


def start_pods(manifest, job, **changes):
    (container,) = manifest["Job"]["spec"]["template"]["spec"]["containers"]
    _, *arguments = container["command"]
    config = arguments.index("configs/mnist.yaml")
    known = {"$(JOB_UID)": "6f1f8a52", "$(POD_IP)": "127.0.0.1"}
    arguments = arguments[:config]
    for variable, value in known.items():
        arguments = [argument.replace(variable, value) for argument in arguments]
    command = [LOCKSTEP, *arguments, job.file, STEPS]
    return [
        processes.start(command, job.directory, pod_environment(manifest, index, **changes))
        for index in range(2)
    ]


def test_pods_with_the_manifests_environment_train_together(manifest, job):
    port = processes.free_port()
    pods = start_pods(manifest, job, MASTER_ADDR="localhost", MASTER_PORT=port)
    for pod in pods:
        ended = processes.finish(pod)
        assert ended.code == 0, ended.err
    run_dir = assert_one_run(job, world_size=4)
    assert run_dir.name == "mnist-6f1f8a52"
    assert_trained_as_launched(job, run_dir, ranks=4)


def test_pods_with_a_wrong_run_file_fail_the_job(manifest, job):
    job.config["model"]["name"] = "mpl"
    job.write()
    port = processes.free_port()
    pods = start_pods(manifest, job, MASTER_ADDR="localhost", MASTER_PORT=port)
    assert [processes.finish(pod).code for pod in pods] == [78, 78]
