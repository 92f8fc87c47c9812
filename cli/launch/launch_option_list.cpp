#include "cli/launch/launch_option_list.h"

namespace lockstep::cli {
namespace {

auto default_text(const char* value) { return cxxopts::value<std::string>()->default_value(value); }

void add_worker_options(cxxopts::Options& options) {
  auto add = options.add_options();
  const auto value = [] { return cxxopts::value<std::string>(); };
  add("n,nproc_per_node,nproc-per-node",
      "ranks on this node; auto: one per GPU, or per core without GPUs; cpu; gpu",
      default_text("1"), "N");
  add("max-restarts,max_restarts", "maximum number of restarts after a failure", default_text("0"),
      "N");
  add("restart-window,restart_window",
      "count only restarts within this time, such as 1h (default: count all)", value(), "TIME");
  add("restart-delay,restart_delay",
      "pause if consecutive restarts make no progress; doubles each time, up to 1 min",
      default_text("1 s"), "TIME");
  add("on-rank-loss,on_rank_loss",
      "when a rank is killed: restart all ranks (see --max-restarts), or continue without it",
      default_text("restart"), "POLICY");
  add("rank-restarts,rank_restarts",
      "with --on-rank-loss continue: how often each killed rank is started again, to join the "
      "others",
      default_text("3"), "N");
  add("spares", "additional processes that take the places of lost ranks", default_text("0"), "N");
  add("stop-grace,stop_grace", "time from SIGTERM to SIGKILL, such as 10s", default_text("30 s"),
      "TIME");
  add("monitor-interval,monitor_interval", "minimum interval between status reports of a node",
      default_text("100 ms"), "TIME");
  add("log-dir,log_dir", "directory of the logs", value(), "DIR");
  add("t,tee", "output to show: 0 nothing, 1 stdout, 2 stderr, 3 both, or per local rank: 0:3,1:2",
      default_text("3"), "SPEC");
  add("r,redirects", "output to write to log files only; same syntax as --tee", default_text("0"),
      "SPEC");
  add("local-ranks-filter,local_ranks_filter",
      "show the output of these local ranks only, such as 0,2", value(), "LIST");
  add("role", "ROLE_NAME of the ranks", default_text("default"), "NAME");
  add("run-id,run_id", "id of the new run (default: from run.name and the time)", value(), "ID");
  add("resume", "resume this run", value(), "ID");
  add("predict", "do not train: write predictions for the evaluation data to this file", value(),
      "FILE");
  add("evaluate", "do not train: print loss and metrics of the evaluation data");
  add("generate",
      "do not train: continue the prompts in this file; put options such as --out after --",
      value(), "FILE");
  add("program", "start this instead of lockstep-trainer", value(), "PATH");
}

void add_node_options(cxxopts::Options& options) {
  auto add = options.add_options();
  const auto value = [] { return cxxopts::value<std::string>(); };
  add("nnodes", "number of nodes, or MIN:MAX", default_text("1"), "N");
  add("node-rank,node_rank",
      "rank of this node, from 0 (default: in order of arrival; node 0 coordinates)", value(), "K");
  add("master-addr,master_addr", "host of node 0, which serves the rendezvous", value(), "HOST");
  add("master-port,master_port", "port on that host (default: 29500; with one node, any free port)",
      default_text("0"), "PORT");
  add("rdzv-endpoint,rdzv_endpoint",
      "rendezvous endpoint, served by that host (default port: 29400)", value(), "HOST[:PORT]");
  add("rdzv-id,rdzv_id", "name of the job, the same on every node", default_text("none"), "NAME");
  add("rdzv-backend,rdzv_backend", "c10d (any order) or static (each node has a --node-rank)",
      value(), "NAME");
  add("rdzv-token-file,rdzv_token_file", "file with the job token (or set LOCKSTEP_RDZV_TOKEN)",
      value(), "FILE");
  add("rdzv-timeout,rdzv_timeout", "how long to wait for the other nodes", default_text("10 min"),
      "TIME");
  add("rdzv-conf,rdzv_conf",
      "last_call_timeout=30,keep_alive_interval=5,keep_alive_max_attempt=3,"
      "read_timeout=60,join_timeout=600 in seconds, is_host=1",
      value(), "K=V,...");
  add("local-addr,local_addr", "address at which other nodes reach this one", value(), "HOST");
  add("interface", "network interface whose address to use as --local-addr", value(), "NAME");
  add("standalone", "run on this node only");
  add("new-token,new_token", "create a job token for --rdzv-token-file and exit", value(), "FILE");
}

void add_host_options(cxxopts::Options& options) {
  auto add = options.add_options();
  const auto value = [] { return cxxopts::value<std::string>(); };
  add("hostfile", "start on each host of this file over ssh; lines: [user@]host[:port] [slots=N]",
      value(), "FILE");
  add("ssh", "ssh command for --hostfile, with additional options", default_text("ssh"), "COMMAND");
  add("export", "environment variables to pass to the hosts of --hostfile", value(), "A,B");
  add("remote-lockstep,remote_lockstep", "path of lockstep on the hosts (default: same as here)",
      value(), "PATH");
}

}  // namespace

const char* const kAfterLaunchOptions = R"(
CONFIG and overrides are passed to every rank unchanged. `lockstep launch -n 2 -- python train.py`
starts any program. With --program, --generate and --evaluate, put -- before arguments of the ranks
that begin with a dash. Options that are not given default to the environment variable PET_<NAME>,
such as PET_NNODES=2.
Logs: <run.dir>/<run id>/logs/attempt_<n>/<local rank>/{stdout.log,stderr.log}; with several nodes
<run.dir>/<run id>/logs/node_<k>/attempt_<n>/...
Exit codes: 0 success, 78 invalid input, 75 environment failure (a restart may help), 70 bug,
128+N stopped by signal N.
)";

cxxopts::Options launch_options() {
  cxxopts::Options options("lockstep launch", "Start and supervise the ranks of one node.\n");
  options.custom_help("[OPTION...] CONFIG [a.b=value ...]").set_width(100);
  add_worker_options(options);
  add_node_options(options);
  add_host_options(options);
  options.add_options()("h,help", "show this help");
  return options;
}

}  // namespace lockstep::cli
