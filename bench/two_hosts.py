"""Two hosts on this machine for benchmarks: network namespaces whose processes cannot share memory. Needs root."""

import concurrent.futures
import os
import sys

from measuring import BIN, SOURCE, output_of

os.environ.setdefault("LOCKSTEP_BIN", str(BIN))
os.environ.setdefault("LOCKSTEP_SOURCE", str(SOURCE))
sys.path.insert(0, str(SOURCE / "tests" / "e2e"))
from network import Network  # noqa: E402

PORT = 29400
TOKEN = "of the benchmarks, long enough"


class TwoHosts:
    def __init__(self):
        self.network = Network(2)
        for host in self.network.hosts:
            host.shares_memory = False

    def close(self):
        self.network.close()

    def _run(self, commands, directory, **more):
        """The output of one command per host."""
        with concurrent.futures.ThreadPoolExecutor(len(commands)) as pool:
            started = [pool.submit(output_of, host.command(command), directory, 600, OMP_NUM_THREADS="1", **more)
                       for host, command in zip(self.network.hosts, commands)]
            return "".join(each.result() for each in started)

    def launch(self, ranks, file, directory):
        command = [BIN / "lockstep", "launch", "-n", ranks // 2, "--nnodes", 2,
                   "--rdzv-endpoint", f"{self.network.hosts[0].address}:{PORT}", file]
        return self._run([command] * 2, directory, LOCKSTEP_RDZV_TOKEN=TOKEN)

    def torchrun(self, ranks, script, directory):
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", ranks // 2, "--nnodes", 2,
                   "--master-addr", self.network.hosts[0].address, "--master-port", PORT]
        return self._run([[*command, "--node-rank", node, *script] for node in range(2)], directory,
                         GLOO_SOCKET_IFNAME="eth0")
