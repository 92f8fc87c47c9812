// The environment of the tests: runs of the real trainer, the real `lockstep ui`, and Debian's Chromium.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { close } from "./browser.mjs";

export { open } from "./browser.mjs";

const need = (name) => process.env[name] ?? (() => { throw new Error(`${name} is not set: run the tests with ctest`); })();
const BIN = need("LOCKSTEP_BIN");
const SOURCE = need("LOCKSTEP_SOURCE");
export const LOCKSTEP = join(BIN, "lockstep");
const TRAINER = join(BIN, "lockstep-trainer");

export const directory = mkdtempSync(join(tmpdir(), "lockstep-ui-"));
export const runs = join(directory, "runs");
const environment = { ...process.env, OMP_NUM_THREADS: "1" };
const started = new Set();

function configuration() {
  const idx = (split, limit) => ({ name: "idx", path: join(SOURCE, ".data/mnist"), split, limit });
  return {
    run: { name: "digits", seed: 7, dir: runs },
    model: { name: "mlp", hidden: [32] },
    data: { train: idx("train", 1200), eval: idx("test", 300), batch_size: 48, workers: 1 },
    optimizer: { name: "sgd", lr: 0.1, momentum: 0.9 },
    train: { epochs: 2, log_every: "1 step", eval_every: "10 steps" },
    tracking: { ranks: "all", sinks: [], system_every: "500 ms", checkpoints: "last" },
  };
}

const file = join(directory, "run.yaml");
writeFileSync(file, JSON.stringify(configuration())); // JSON is YAML

export function run(command, ...words) {
  const ended = spawnSync(command, words, { cwd: directory, env: environment, encoding: "utf8", timeout: 180000, maxBuffer: 1 << 30 });
  if (ended.status !== 0) throw new Error(`${command} ${words.join(" ")}: ${ended.status}\n${ended.stdout}${ended.stderr}`);
  return ended.stdout;
}

export const record = (...words) => run(need("LOCKSTEP_SAMPLE_RUNS"), runs, ...words);

/** Creates a sweep of five trials, whose results other programs report: two finished ones, one pruned, one failed, one open. */
export function sweep(name) {
  const path = join(directory, `${name}.yaml`);
  writeFileSync(path, JSON.stringify({ run: "run.yaml", space: { "optimizer.lr": { log_uniform: [0.001, 1] } }, search: { name: "sobol" }, pruning: { name: "median", startup: 1 }, objective: { metric: "eval/loss" }, budget: { trials: 8 } }));
  run(LOCKSTEP, "sweep", path, "--create");
  const of = (command, ...words) => run(LOCKSTEP, "sweep", command, name, ...words, "--dir", runs);
  for (let trial = 0; trial < 5; trial++) of("ask");
  of("tell", "0", "--value", "0.5", "--step", "10");
  of("tell", "0", "--value", "0.5");
  of("tell", "1", "--value", "0.25");
  of("tell", "2", "--value", "0.9", "--step", "10");
  of("tell", "2", "--pruned");
  of("tell", "3", "--failed", "out of memory");
}

/** Runs a program of the Python client. */
export const python = (script, ...words) => run("env", `PYTHONPATH=${join(SOURCE, "python")}`, need("LOCKSTEP_PYTHON"), "-c", script, ...words);

const idsOf = (name) => (existsSync(runs) ? readdirSync(runs).filter((id) => id.startsWith(`${name}-`)) : []);

export async function waitFor(condition, what, seconds = 90) {
  const latest = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > latest) throw new Error(`timed out after ${seconds} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Runs a complete training on two ranks. Returns the run id. */
export function train(name, ...overrides) {
  run(LOCKSTEP, "launch", "-n", "2", file, `run.name=${name}`, ...overrides);
  return idsOf(name)[0];
}

function trainer(...words) {
  const process = spawn(TRAINER, [file, ...words], { cwd: directory, env: environment, stdio: "ignore" });
  started.add(process);
  process.on("exit", () => started.delete(process));
  return process;
}

/** Resumes a run. Returns the process. */
export const resume = (id, ...overrides) => trainer("--resume", id, ...overrides);

/** Starts a training with one process. Returns {id, process}. */
export async function begin(name, ...overrides) {
  const process = trainer(`run.name=${name}`, ...overrides);
  // The run directory exists earlier than its files.
  const isThere = (one) => ["run.json", "events/rank-00000.lsev"].every((file) => existsSync(join(runs, one, file)));
  const id = await waitFor(() => idsOf(name).find(isThere), `${name} to start`);
  return { id, process };
}

/** Starts `lockstep ui` on the runs. Returns the link that it prints. */
export async function link(...options) {
  const server = spawn(LOCKSTEP, ["ui", "--dir", runs, ...options], { cwd: directory, env: environment });
  started.add(server);
  let output = "";
  server.stdout.on("data", (text) => (output += text));
  server.stderr.on("data", (text) => (output += text));
  await waitFor(() => /http:\/\/\S+/.test(output) || server.exitCode !== null, "the dashboard to print its address");
  const found = /http:\/\/\S+/.exec(output);
  if (!found) throw new Error(`lockstep ui: ${output}`);
  const address = new URL(found[0]);
  address.hostname = "127.0.0.1"; // Chromium logs an error for other addresses without HTTPS
  return address;
}

/** Starts `lockstep ui` on the runs. Returns its address. */
export const serve = async (...options) => (await link(...options)).origin;

/** The output of `lockstep runs`, as the reference for the browser. */
export const show = (id) => JSON.parse(run(LOCKSTEP, "runs", "show", id, "--json", "--dir", runs));
export const exported = (id) => run(LOCKSTEP, "runs", "export", id, "--format", "jsonl", "--dir", runs).split("\n").filter(Boolean).map((line) => JSON.parse(line));

export async function end() {
  await close();
  for (const process of started) process.kill("SIGKILL");
  // The agents of killed processes exit shortly after.
  await waitFor(() => !isRunning(directory), "agents to exit");
  rmSync(directory, { recursive: true, force: true });
}

/** Waits for the agent of a run, which still writes shortly after the run is over. */
export const agentToEnd = (id) => waitFor(() => !isRunning("track", join(runs, id)), `the agent of ${id} to exit`);

/** Whether another process has all `words` in its command line. */
function isRunning(...words) {
  return readdirSync("/proc").some((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      return words.every((word) => command.includes(word));
    } catch {
      return false;
    }
  });
}
