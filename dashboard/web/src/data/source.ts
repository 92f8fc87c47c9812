// The interface of the data sources: a server (http.ts), or a report with inlined data (inlined.ts). The types correspond to
// docs/dashboard_api.md.
import type { Planned } from "../progress";
import type { WireNumber } from "../format";

export type RunState = "running" | "finished" | "failed" | "killed" | "preempted" | "lost" | "corrupt";
export type Axis = "step" | "epoch" | "time";
export type Range = [number, number];

export interface RunRow {
  id: string;
  name: string;
  group: string | null;
  job_type: string | null;
  state: Exclude<RunState, "corrupt">;
  exit: number | null;
  signal: number | null;
  failed_rank: number | null;
  reason: string;
  created: WireNumber;
  updated: WireNumber;
  duration: WireNumber;
  host: string;
  world_size: number;
  num_ranks: number;
  step: number | null;
  epoch: WireNumber | null;
  /** The planned length; absent in logs of earlier versions. */
  planned?: Planned | null;
  tags: string[];
  note: string;
  num_alerts: number;
  problems: string[];
  version: number;
  values?: Record<string, unknown>;
}

export interface Source {
  source: string;
  kind: "rank" | "node";
  id?: string;
  name?: string;
  rank?: number;
  node: number;
  local_rank?: number;
  host: string;
  pid?: number;
  state?: RunRow["state"];
  created?: WireNumber;
  updated?: WireNumber;
  step?: number | null;
  epoch?: WireNumber | null;
  summary?: Record<string, unknown>;
}

export interface Metric {
  name: string;
  section: string;
  axis: Axis;
  sources: string[];
  last: unknown;
  min: unknown;
  max: unknown;
  mean: unknown;
  step: number;
  /** Including NaN. */
  count: number;
  num_nan: number;
}

export interface Alert { run: string; source: string; time: WireNumber; level: string; title: string; text: string; step?: number | null }
export interface Media { kind: "image" | "clip" | "histogram" | "table"; name: string; sources: string[]; count: number; first_step: number; last_step: number }
export interface ConsoleStream { stream: string; attempt: number; node: number; local_rank: number; start: number; rank: number; kind: string; path: string | null; bytes: number; modified: number }
export interface Checkpoint { name: string; step: number; bytes: number; modified: number }

export interface Run extends RunRow {
  dir: string;
  command: string[];
  config: unknown;
  defaults: string[] | null;
  environment: Record<string, unknown>;
  sources: Source[];
  metrics: Metric[];
  media: Media[];
  summary: Record<string, unknown>;
  checkpoints: Checkpoint[];
  console: ConsoleStream[];
  alerts: Alert[];
  num_texts: number;
  stop_requested: { time: number; reason: string } | null;
}

/** The uncommitted changes with which a run was started: a diff, or why there is none. */
export interface Code { commit: string; branch: string; diff: string; problem?: string; note?: string; sha256?: string; files?: number; added?: number; removed?: number }

export interface Indexing { done: number; total: number }
export interface ServerInfo { version: string; dir: string; seq: number; indexing: Indexing; actions: boolean; token: boolean }
export interface RunList { total: number; matching: number; offset: number; seq: number; indexing: Indexing; runs: RunRow[] }
export interface RunQuery { filter: string; sort: string; offset: number; limit: number; columns: string[] }
/** `differs`: whether the runs have different values (configuration only). */
export interface Field { field: string; type: "number" | "text" | "bool" | "mixed"; runs: number; differs?: boolean }
export interface Spread { mean: unknown; min: unknown; max: unknown; count: number }
export interface Group { value: unknown; runs: number; states: Record<string, number>; ids: string[]; values?: Record<string, Spread> }

export interface CurveQuery {
  /** Runs, or a filter; `created` of the runs that match it. */
  runs: { id: string; created: WireNumber }[] | { filter: string; created: ReadonlyMap<string, WireNumber> };
  metric: string;
  sources: string[] | "*" | "ranks" | null;
  x: Axis;
  range: Range | null;
  points: number;
  smooth: number;
}
/** With x=time, x is relative to the start of the run. `smooth` is present if requested. */
export interface Curve { run: string; source: string; metric: string; raw: boolean; total: number; x: Float64Array; y: Float64Array; smooth?: Float64Array }

/** `runs`: ids, or a filter. */
export interface BandQuery { runs: string[] | { filter: string }; metric: string; x: Axis; range: Range | null; points: number }
export interface Band {
  metric: string;
  curves: { run: string; source: string }[];
  raw: boolean;
  x: Float64Array;
  mean: Float64Array;
  min: Float64Array;
  max: Float64Array;
  deviation: Float64Array;
  p10: Float64Array;
  median: Float64Array;
  p90: Float64Array;
  count: number[];
  min_curve: number[];
  max_curve: number[];
}

export interface Heatmap { metric: string; sources: string[]; from: number; to: number; edges: number[]; columns: number; mean: (number | null)[][]; max: (number | null)[][]; smallest: number; largest: number }
export interface ImageItem { source: string; name: string; step: number; time: WireNumber; epoch: WireNumber; at: number; width: number; height: number; caption: string; url: string }
/** A sound, a video or an HTML page. */
export interface ClipItem { source: string; name: string; step: number; time: WireNumber; epoch: WireNumber; at: number; type: string; bytes: number; caption: string; url: string }
/** The newest of a list; `more`: whether there are earlier ones. */
export interface Newest<T> { items: T[]; more: boolean }
export interface HistogramItem { source: string; step: number; time: WireNumber; epoch: WireNumber; edges: number[]; counts: number[] }
export interface TableVersion { source: string; step: number; time: WireNumber; epoch: WireNumber; at: number }
/** `left_out`: the number of rows that a report does not contain. */
export interface TablePage { versions: TableVersion[]; at: number; columns: string[]; rows: unknown[][]; num_rows: number; left_out?: number }
export interface TextItem { source: string; time: WireNumber; level: string; line: string }
export interface ConsolePage { stream: string; begin: number; end: number; size: number; lines: string[] }
export interface ConsoleMatches { matches: { offset: number; line: string }[]; end: number; size: number }
export interface MetricSummary { last: unknown; min: unknown; max: unknown; mean: unknown; step: number; count: number; num_nan: number }
export interface Comparison {
  runs: RunRow[];
  config: Compared[];
  environment: Compared[];
  metrics: { name: string; values: (MetricSummary | null)[] }[];
}
export interface Compared { key: string; differs: boolean; values: unknown[]; missing?: boolean[] }
export interface ArtifactFile { path: string; bytes: number; sha256: string; url: string }
export interface Artifact {
  name: string; type: string; version: number; aliases: string[]; digest: string; bytes: number; created: WireNumber;
  made_by: string | null; used_by: string[]; metadata: Record<string, unknown>; files: ArtifactFile[];
}
export interface RunFile { path: string; bytes: number; modified: number }
export interface Changes { seq: number; runs: RunRow[]; removed: string[]; indexing: Indexing; reset: boolean }

/** Runs by ids, or by a filter; with both, those of the runs that match. */
export type RunChoice = string[] | { run?: string[]; filter: string };
/** One field of all runs: numbers, bools, or indices into `labels` (-1: none). */
export interface ValueColumn { field: string; type: "number" | "bool" | "text"; labels?: string[]; values: unknown[] }
/** At most the newest 5000 of the `matching` runs. */
export interface Analysis {
  matching: number; ids: string[]; names: string[]; states: string[]; columns: ValueColumn[]; keys_left_out: number; metrics: { name: string; runs: number }[];
}
export interface ParameterImportance {
  field: string; importance: number; above_noise: boolean; correlation: number | null; effect: "none" | "rises" | "falls" | "mixed"; runs: number;
  at: unknown[]; mean: unknown[];
}
/** `used` is 0 if there are fewer than `needed` runs with a result. */
export interface Importance {
  target: string; matching: number; runs: number; needed: number; used: number; explained: number;
  parameters: ParameterImportance[]; interactions: { fields: [string, string]; strength: number }[];
}

export type TrialState = "open" | "finished" | "pruned" | "failed";
/** A point of a sweep with its results; null: not a number. `evaluations`: steps and values of the first objective in the first run. */
export interface Trial {
  number: number; by: string; state: TrialState; created: number; ended?: number; parameters: Record<string, unknown>; values?: (number | null)[];
  evaluations?: [number, number | null][]; runs?: string[]; reason?: string;
}
export interface Objective { metric: string; direction: "minimize" | "maximize"; value: "last" | "best" }
/** The sweep file, as far as the page shows it. */
export interface SweepFile {
  run: string; space: Record<string, unknown>; search: { name: string }; objective: Objective | Objective[]; pruning: { name: string };
  budget: { trials?: number | null; time?: string | null; target?: number | null }; seeds: number;
}
export interface SweepRow { name: string; id: string; dir: string; state: "running" | "done" | "stopped"; created: number; ranks: number; sweep: SweepFile; counts: Record<TrialState, number>; best: Trial[] }
export interface Sweep extends SweepRow { trials: Trial[] }
/** A sweep whose files cannot be read. */
export interface SweepProblem { name: string; problem: string }

/** `view`: the part of the URL from "#/". */
export interface SavedView { name: string; view: string; saved: WireNumber }

/** Implemented by a server or a report; a report is read-only and does not contain everything. */
export interface DataSource {
  readonly live: boolean;
  /** The initial route, if the URL has none. */
  readonly start?: string;
  server(): Promise<ServerInfo>;
  runs(query: RunQuery): Promise<RunList>;
  /** Of the runs that match the filter, or of all. */
  fields(filter?: string): Promise<Field[]>;
  groups(by: string, filter: string, columns: string[]): Promise<Group[]>;
  run(id: string): Promise<Run>;
  /** Null if it is not recorded. */
  code(run: string): Promise<Code | null>;
  curves(query: CurveQuery): Promise<Curve[]>;
  band(query: BandQuery): Promise<Band | null>;
  heatmap(run: string, metric: string, range: Range | null, columns: number): Promise<Heatmap | null>;
  /** At most `count`. */
  images(run: string, name: string, count: number): Promise<Newest<ImageItem>>;
  clips(run: string, name: string, count: number): Promise<Newest<ClipItem>>;
  histograms(run: string, name: string, source: string): Promise<HistogramItem[]>;
  table(run: string, name: string, at: number | null, offset: number, rows: number): Promise<TablePage>;
  texts(run: string): Promise<TextItem[]>;
  console(run: string, stream: string, where: { tail: number } | { from: number } | { to: number }): Promise<ConsolePage>;
  searchConsole(run: string, stream: string, text: string, from: number): Promise<ConsoleMatches>;
  alerts(): Promise<Alert[]>;
  compare(runs: string[]): Promise<Comparison>;
  /** Without columns: the configuration keys that differ, and the main metrics. */
  analysis(runs: RunChoice, columns: string[]): Promise<Analysis>;
  importance(runs: RunChoice, target: string, parameters: string[]): Promise<Importance>;
  sweeps(): Promise<(SweepRow | SweepProblem)[]>;
  sweep(name: string): Promise<Sweep>;
  artifacts(run: string | null): Promise<{ artifacts: Artifact[]; problems: string[] }>;
  files(run: string): Promise<RunFile[]>;
  /** The download URL, or null if unavailable. */
  fileUrl(run: string, path: string): string | null;
  reportUrl(runs: string[]): string | null;
  csvUrl(query: { runs: { id: string; created?: WireNumber }[] } & Pick<CurveQuery, "metric" | "sources">): string | null;
  views(): Promise<SavedView[]>;
  /** Replaces the view of this name; null removes it. Returns all views. */
  saveView(name: string, view: string | null): Promise<SavedView[]>;
  change(run: string, change: { add?: string[]; remove?: string[]; note?: string }): Promise<RunRow>;
  stop(run: string, reason: string): Promise<RunRow>;
  remove(run: string): Promise<void>;
  /** Reports changes until the returned function is called. */
  watch(since: number, onChanges: (changes: Changes) => void, onConnection: (state: Connection) => void): () => void;
}

export type Connection = "live" | "polling" | "lost";

/** An error response of the server. */
export class ApiError extends Error {
  constructor(readonly code: string, message: string, readonly column?: number) {
    super(message);
  }
}

/** "corrupt" takes precedence over the outcome. */
export function shownState(run: Pick<RunRow, "state" | "problems">): RunState {
  return run.problems.length > 0 && run.state !== "running" ? "corrupt" : run.state;
}
