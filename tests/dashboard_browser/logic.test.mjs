// Computations of the front end, without a browser: colors, ticks, decimals, differing keys, progress.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

const web = join(process.env.LOCKSTEP_SOURCE, "dashboard/web");

/** Compiles the modules into one. */
async function compiled(...modules) {
  const { build } = createRequire(join(web, "package.json"))("esbuild");
  const contents = modules.map((module) => `export * from "./src/${module}";`).join("\n");
  const { outputFiles } = await build({ stdin: { contents, resolveDir: web, loader: "ts" }, bundle: true, write: false, format: "esm", logLevel: "silent" });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`);
}

const page = await compiled("chart/ticks.ts", "chart/palette.ts", "chart/line.ts", "chart/svg.ts", "runs/differing.ts", "runs/columns.ts", "format.ts", "metrics.ts", "progress.ts", "data/report_band.ts", "chart/expression.ts", "analyze/values.ts", "parts/markdown.ts", "run/histogram_values.ts", "run/classifier_curves.ts", "analyze/surface.ts", "run/diff_lines.ts", "run/projection.ts", "run/umap.ts", "run/umap_layout.ts", "run/module_calls.ts", "data/filter.ts", "runs/archived.ts", "analyze/pruned.ts", "parts/keyboard.ts");

const styleText = ({ color, dash }) => `${color} ${dash.join()}`;

for (const theme of ["light", "dark"]) {
  test(`50 compared runs have distinct styles, and up to ten have one hue each (${theme})`, () => {
    const styles = Array.from({ length: 50 }, (_, index) => page.styleAt(index, theme));
    assert.equal(new Set(styles.map(styleText)).size, 50);
    assert.equal(new Set(styles.slice(0, 10).map((style) => style.color)).size, 10);
    assert.ok(styles.slice(0, 10).every((style) => style.dash.length === 0));
  });

  test(`line colors have sufficient contrast with the background (${theme})`, () => {
    const luminance = (color) => {
      const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
    const background = theme === "light" ? "#ffffff" : "#181b1f";
    const ramp = Array.from({ length: 21 }, (_, i) => page.rampColor(i / 20, theme));
    for (const color of [...page.HUES[theme], ...ramp]) assert.ok(contrast(color, background) >= 2.9, `${color} on ${background}: ${contrast(color, background)}`);
  });
}

test("runs colored by a key: a ramp for numbers, logarithmic over a wide range, hues for strings", () => {
  const rates = page.keyColors([0.01, 1, 0.1, 0.01, null], "light");
  assert.deepEqual(rates.ramp, { low: 0.01, high: 1, log: true });
  assert.equal(rates.colors[0], page.rampColor(0, "light"));
  assert.equal(rates.colors[1], page.rampColor(1, "light"));
  assert.equal(rates.colors[2], page.rampColor(0.5, "light"));
  assert.equal(rates.colors[3], rates.colors[0]);
  assert.ok(!rates.colors.slice(0, 4).includes(rates.colors[4]), "a missing value is not on the ramp");
  assert.equal(page.keyColors([1, 2, 3], "dark").ramp.log, false);
  const names = page.keyColors(["sgd", "adamw", "sgd"], "light");
  assert.equal(names.ramp, null);
  assert.equal(names.colors[0], names.colors[2]);
  assert.notEqual(names.colors[0], names.colors[1]);
});

test("byte ticks are round in their unit", () => {
  const gib = 1024 ** 3;
  assert.deepEqual(page.valueTicks("system/memory_bytes", 64.521 * gib, 64.569 * gib, 5).labels, ["64.53 GiB", "64.54 GiB", "64.55 GiB", "64.56 GiB"]);
  assert.deepEqual(page.valueTicks("system/net.read_bytes_per_s", 0, 3 * 1024 ** 2, 4).labels, ["0 MiB/s", "1 MiB/s", "2 MiB/s", "3 MiB/s"]);
});

test("the ticks of an axis have equal decimals and distinct labels", () => {
  assert.deepEqual(page.valueTicks("train/loss", 0.5, 1.01, 6).labels, ["0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]);
  assert.deepEqual(page.valueTicks("train/loss", 0, 3e-5, 4).labels, ["0", "1e−5", "2e−5", "3e−5"]);
  assert.deepEqual(page.valueTicks("x", -1, 1, 4).labels, ["−1.0", "−0.5", "0", "0.5", "1.0"]);
  assert.deepEqual(page.valueTicks("train/samples_per_s", 0, 300000, 3).labels, ["0", "100,000", "200,000", "300,000"]);
  assert.deepEqual(page.valueTicks("rank/step_time_s", 0.01, 0.0161, 4).labels, ["10 ms", "12 ms", "14 ms", "16 ms"]);
  for (let seed = 1; seed < 400; seed++) {
    const low = Math.sin(seed) * 10 ** (seed % 9);
    const high = low + Math.abs(Math.cos(seed)) * 10 ** ((seed * 7) % 12 - 5);
    const { at, labels } = page.valueTicks("m", low, high, 6);
    assert.equal(new Set(labels).size, labels.length, `${low} to ${high}: ${labels}`);
    assert.ok(at.length <= 7 && at.every((tick) => tick >= low - 1e-6 * Math.abs(low) && tick <= high + 1e-6 * Math.abs(high)), `${low} to ${high}: ${at}`);
  }
});

test("a single value has one tick", () => {
  assert.deepEqual(page.valueTicks("train/lr", 0, 0.2, 5, 0.1), { at: [0.1], labels: ["0.1"] });
});

test("ticks of a logarithmic axis are round, even within a decade", () => {
  assert.deepEqual(page.logTicks(0.01, 100, 20), [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]);
  assert.deepEqual(page.logTicks(1e-8, 1e8, 6), [1e-8, 1e-5, 0.01, 10, 1e4, 1e7]);
  assert.deepEqual(page.logTicks(0.821, 0.872, 5), [0.84, 0.86]);
  assert.deepEqual(page.logTicks(1e-6, 1, 6), [1e-6, 1e-4, 0.01, 1]);
  assert.deepEqual(page.logTicks(2, 70, 3), [2, 10, 50]);
  assert.deepEqual(page.logValueTicks("m", 0.821, 0.872, 5).labels, ["0.84", "0.86"]);
});

test("ticks of times and steps are round", () => {
  assert.deepEqual(page.timeTicks(0, 200, 4).labels, ["0", "1 min", "2 min", "3 min"]);
  assert.deepEqual(page.timeTicks(0, 9000, 5).labels, ["0", "30 min", "60 min", "90 min", "120 min", "150 min"].slice(0, page.timeTicks(0, 9000, 5).at.length));
  assert.deepEqual(page.timeTicks(0, 4, 4).labels, ["0", "1 s", "2 s", "3 s", "4 s"]);
  assert.deepEqual(page.positionTicks(0, 25000, 5, true).labels, ["0", "5k", "10k", "15k", "20k", "25k"]);
  assert.deepEqual(page.positionTicks(0, 3, 10, true).labels, ["0", "1", "2", "3"]);
  assert.deepEqual(page.positionTicks(0, 1, 5, false).labels, ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
});

test("an axis does not exceed the limits of its metric", () => {
  const percent = page.limitsOf("system/cpu_percent");
  assert.deepEqual(page.rangeY([3, 100], false, percent), [0, 100]);
  assert.ok(page.rangeY([0.4, 0.99], false, page.limitsOf("eval/accuracy"))[1] === 1);
  assert.ok(page.rangeY([0, 140], false, percent)[1] > 140, "a value beyond the limits is still shown");
  assert.equal(page.limitsOf("train/loss"), null);
  assert.deepEqual(page.rangeY([0.1, 0.1], false, null), [0, 0.2]);
});

test("numbers of a column have equal decimals without losing significant digits", () => {
  const accuracy = page.columnFormat("eval/accuracy", [0.2, 0.9412, 0.87654]);
  assert.deepEqual([0.2, 0.9412, 0.87654].map(accuracy), ["0.2000", "0.9412", "0.8765"]);
  const loss = page.columnFormat("train/loss", [0.31, 0.2, 0.00001234, 12.5]);
  assert.deepEqual([0.31, 0.2, 12.5].map(loss), ["0.3100", "0.2000", "12.5000"]);
  assert.equal(loss(0.00001234), null, "formatted separately");
  assert.equal(loss(NaN), null);
  const memory = page.columnFormat("system/memory_bytes", [1.5 * 1024 ** 3, 2 * 1024 ** 3]);
  assert.equal(memory(1.5 * 1024 ** 3), "1.500 GiB");
  assert.equal(page.columnFormat("n", [3, 20])(3), "3");
});

test("numbers of a configuration key have at most four digits, and equal decimals", () => {
  const rates = page.settingFormat([0.1, 0.03, 1]);
  assert.deepEqual([0.1, 0.03, 1].map(rates), ["0.10", "0.03", "1.00"]);
  assert.equal(page.settingFormat([0.022073885])(0.022073885), "0.02207");
  assert.deepEqual([32, 64, 1024].map(page.settingFormat([32, 64, 1024])), ["32", "64", "1024"]);
  assert.deepEqual([1e-5, 0.1].map(page.settingFormat([1e-5, 0.1])), ["1e−5", "0.1"]);
  assert.deepEqual([0.1, 0.02207, 1e30].map(page.settingFormat([0.1, 0.02207, 1e30])), ["0.10000", "0.02207", "1e30"], "a number with an exponent does not affect the others");
  assert.deepEqual([0.003, 1e6, 20].map(page.settingFormat([0.003, 1e6, 20])), ["0.003", "1e6", "20.000"], "a large number is not wider than the others");
  assert.deepEqual([1e6, 2500000].map(page.settingFormat([1e6, 2500000])), ["1000000", "2500000"]);
  const places = page.linearValues("order", Float64Array.of(1, 2, 3), true);
  assert.deepEqual(places.scale.ticks(10).map(({ label }) => label), ["1", "2", "3"]);
  assert.ok(page.linearValues("order", Float64Array.from({ length: 30 }, (_, i) => i + 1), true).scale.ticks(100).every(({ label }) => !label.includes(".")));
});

test("file sizes have equal decimals, and the phases of a step are durations", () => {
  assert.deepEqual([0, 1004, 10240, 102100, 215500, 3 * 1024 ** 3].map(page.fileSize), ["0 B", "1004 B", "10.0 KiB", "99.7 KiB", "210.4 KiB", "3.0 GiB"]);
  assert.equal(page.metricValue("time/forward/median", 0.0000865), "86.5 µs");
  assert.equal(page.metricValue("time/step", 0.25), "250 ms");
  assert.equal(page.metricValue("time/slowest_rank", 1), "1");
  assert.deepEqual(page.valueTicks("time/step/max", 0, 0.004, 4).labels, ["0 ms", "1 ms", "2 ms", "3 ms", "4 ms"]);
});

test("what a run would gain without a rank counts the steps in which the others wait for it", () => {
  const values = (...list) => new Map(list.map((value, i) => [10 * i, value]));
  const times = [values(1.3, 1.3, 0.8, 5), values(3, 3, 1, 3), values(1.2, 1.2, 0.75, NaN), values(0.7, 0.7, 0.7, NaN)];
  const near = (actual, step, without) => assert.ok(Math.abs(actual.step - step) < 1e-9 && Math.abs(actual.without - without) < 1e-9, JSON.stringify(actual));
  // The times of all ranks: 1.2 and 1.0 and 0.7 in the first step, so 0.2 is lost, and nothing if two are equally slow.
  const own = (...ranks) => new Map(ranks.map((list, rank) => [rank, values(...list)]));
  near(page.gainWithout(0, times, 3, own([1.2, 1.2, 0.7], [1, 1.2, 0.7], [0.7, 0.7, 0.75])), 3.4 / 3, 3.2 / 3);
  near(page.gainWithout(2, times, 3, own([1.2, 1.2, 0.7], [1, 1.2, 0.7], [0.7, 0.7, 0.75])), 3.4 / 3, 3.35 / 3);
  assert.equal(page.gainWithout(0, times, 3, own([1.2, 1.2, 0.7], [1, 1.2, 0.7], [0.7, 0.7, 0.75])).isBound, false);
  near(page.gainWithout(0, times, 2, own([1.2, 1.2, 0.7], [1.1])), 1.3, 1.2);
  // Those of the main rank: a bound, unless there is only one other rank. The times of some of the ranks are not used.
  for (const [numRanks, some] of [[2, null], [4, null], [4, own([1.2, 1.2, 0.7], [1.1])]]) {
    near(page.gainWithout(3, times, numRanks, some), 3.4 / 3, 2.4 / 3);
    near(page.gainWithout(1, times, numRanks, some), 3.4 / 3, 3.35 / 3);
    near(page.gainWithout(0, times, numRanks, some), 3.4 / 3, 3.4 / 3);
    assert.equal(page.gainWithout(3, times, numRanks, some).isBound, numRanks > 2);
  }
  assert.equal(page.gainWithout(0, [new Map(), new Map(), new Map(), new Map()], 4, null), null);
  assert.equal(page.gainWithout(0, [values(1), new Map(), new Map(), new Map()], 1, null), null, "a run of one rank");
});

test("a metric of only one of many runs is not a default column", () => {
  const metric = (name, runs) => ({ field: `metric.${name}`, type: "number", runs });
  const columns = page.defaultColumns([metric("eval/once", 1), metric("eval/loss", 30), metric("eval/accuracy", 12), metric("train/loss", 40)]);
  assert.deepEqual(columns.filter(page.isMetric), ["metric.eval/accuracy", "metric.eval/loss", "metric.train/loss"]);
});

test("the table shows the configuration keys in which the runs differ", () => {
  const field = (name, differs) => ({ field: name, type: "number", runs: 9, differs });
  const fields = [field("config.model.hidden", true), field("config.run.seed", true), field("config.run.name", true), field("config.optimizer.name", false), field("config.optimizer.lr", true), field("config.tracking.group", true), { field: "metric.eval/loss", type: "number", runs: 9 }];
  assert.deepEqual(page.differingKeys(fields), ["config.optimizer.lr", "config.model.hidden", "config.run.seed"]);
});

test("results come first and system metrics last, which have no best value", () => {
  const names = ["system/disk.read_bytes_per_s", "train/loss", "rank/step_time_s", "my/own", "eval/loss", "test/accuracy"];
  assert.deepEqual([...names].sort(page.compareMetrics), ["eval/loss", "test/accuracy", "train/loss", "my/own", "rank/step_time_s", "system/disk.read_bytes_per_s"]);
  assert.equal(page.indexOfBest("system/disk.read_bytes_per_s", [1, 2]), -1);
  assert.equal(page.indexOfBest("rank/step_time_s", [1, 2]), -1);
  assert.equal(page.indexOfBest("eval/loss", [3, NaN, 2]), 2);
  assert.equal(page.indexOfBest("eval/accuracy", [0.3, 0.9]), 1);
  assert.equal(page.indexOfBest("train/samples_per_s", [10, 9]), 0);
  assert.equal(page.indexOfBest("eval/loss", [2, 2]), -1);
  assert.equal(page.indexOfBest("my/own", [1, 2]), -1);
});

test("constant metrics are detected from the totals", () => {
  const totals = (min, max, count = 5, num_nan = 0) => ({ min, max, count, num_nan });
  assert.equal(page.constantValue([totals(0.1, 0.1)]), 0.1);
  assert.equal(page.constantValue([totals(0.1, 0.2)]), null);
  assert.equal(page.constantValue([totals(1, 1, 5, 1)]), null, "NaN is a change");
  assert.equal(page.constantValue([totals(1, 1, 1)]), null, "one value is not sufficient");
  assert.equal(page.constantValue([totals(1, 1, 1)], 1), 1, "but it is for a run that is over");
  assert.equal(page.constantValue([totals(0, 0), null, totals(0, 0)]), 0);
  assert.equal(page.constantValue([totals(0.1, 0.1), totals(0.3, 0.3)]), null, "the runs differ");
  assert.equal(page.constantValue([totals("nan", "nan")]), null);
});

test("progress is measured in the unit that ends the run first", () => {
  assert.equal(page.progressOf({ step: 10, epoch: 1 }), null);
  assert.equal(page.progressOf({ planned: null, step: 10, epoch: 1 }), null);
  assert.equal(page.progressOf({ planned: { steps: null, epochs: null }, step: 10, epoch: 1 }), null);
  assert.deepEqual(page.progressOf({ planned: { steps: 3000, epochs: 3 }, step: 750, epoch: 0.75 }), { fraction: 0.25, unit: "step", done: 750, total: 3000 });
  assert.equal(page.progressOf({ planned: { steps: 3000, epochs: 10 }, step: 750, epoch: 9 }).unit, "epoch");
  assert.equal(page.progressOf({ planned: { steps: null, epochs: 4 }, step: 750, epoch: 1 }).fraction, 0.25);
  assert.equal(page.progressOf({ planned: { steps: 10, epochs: null }, step: 12, epoch: null }).fraction, 1);
  assert.equal(page.progressOf({ planned: { steps: null, epochs: 4 }, step: 750, epoch: "nan" }), null);
});

test("the remaining time follows the recent rate", () => {
  const rates = new page.Rates();
  rates.observe("a", 0.5, 1000);
  assert.equal(rates.remaining("a", 0.5, 1000, 900, 1000), 100, "initially extrapolated from the start");
  for (let i = 1; i <= 60; i++) rates.observe("a", 0.5 + i * 0.002, 1000 + 5 * i);
  const remaining = rates.remaining("a", 0.62, 1300, 900, 1300);
  assert.ok(Math.abs(remaining - 0.38 / (0.002 / 5)) < 1, `${remaining}`);
  rates.observe("a", 0.1, 1310); // rewound to an earlier checkpoint
  assert.ok(rates.remaining("a", 0.1, 1310, 1210, 1310) > 0);
  assert.equal(new page.Rates().remaining("b", 0, 10, 10, 10), null);
});

test("a chart as SVG has its lines, names and axes, and escapes names", () => {
  const svg = page.chartSvg({
    title: "eval/<script>&", name: "eval/loss", xName: "step", xKind: "step", range: null, log: false, width: 600, height: 300, font: "sans-serif",
    colors: { paper: "#fff", ink: "#000", soft: "#444", grid: "#eee" },
    lines: [{ key: "a", label: '"><img src=x>', color: "#123456", dash: [4, 2], x: [0, 1, 2, 3], y: [3, NaN, 2, 1] }, { key: "b", label: "b", color: "#654321", x: [0, 3], y: [1, 2], band: { lo: [0, 1], hi: [2, 3], name: "" } }],
  });
  assert.ok(!svg.includes("<script>") && !svg.includes("<img"));
  assert.match(svg, /stroke="#123456"[^>]*stroke-dasharray="4 2"/);
  assert.match(svg, />step</);
  assert.match(svg, />2\.5</);
});

test("a band over the runs of a report has the quantiles over all of their ranks", () => {
  const array = (...values) => Float64Array.from(values);
  const quantile = (values, q) => {
    const sorted = [...values].sort((a, b) => a - b);
    const position = q * (sorted.length - 1);
    return sorted[Math.floor(position)] + (position % 1) * (sorted[Math.ceil(position)] - sorted[Math.floor(position)]);
  };
  const piece = (...values) => ({
    curves: values.map((_, i) => ({ run: "r", source: `rank-${i}` })), raw: true, step: array(0), mean: array(values.reduce((a, b) => a + b) / values.length), min: array(Math.min(...values)), max: array(Math.max(...values)),
    deviation: array(0), p10: array(quantile(values, 0.1)), median: array(quantile(values, 0.5)), p90: array(quantile(values, 0.9)), count: [values.length], min_curve: [0], max_curve: [0], toX: (step) => step,
  });
  const runs = [[1, 4], [2], [7, 3, 9]];
  const band = page.mergeBands("m", runs.map((values) => piece(...values)), "step", 100);
  for (const [name, part] of [["p10", 0.1], ["median", 0.5], ["p90", 0.9]]) assert.ok(Math.abs(band[name][0] - quantile(runs.flat(), part)) < 1e-12, `${name}: ${band[name][0]}`);
  const eleven = Array.from({ length: 11 }, (_, i) => i ** 2);
  assert.equal(page.mergeBands("m", [piece(...eleven)], "step", 100).p90[0], quantile(eleven, 0.9), "for one run as on the server");
});

const METRICS = ["train/loss", "eval/loss", "train/loss_scale", "eval/accuracy", "lr"];
const line = (key, x, y) => ({ key, label: key, color: "#000000", x, y });
const linesOf = (text, lines, smoothing = 0) => page.expressionLines(page.parseExpression(text, METRICS), new Map(Object.entries(lines)), smoothing);

test("an expression has the values of its metrics, at the points of the metric with the fewest", () => {
  const train = [line("a", [0, 1, 2, 3, 4], [8, 6, 4, 2, 0]), line("b", [0, 4], [1, 1])];
  const evaluated = [line("a", [1, 2.5, 4], [1, 1, 1]), line("c", [0], [1])];
  const [only, ...others] = linesOf("train/loss - 2 * eval/loss ^ 2", { "train/loss": train, "eval/loss": evaluated });
  assert.deepEqual(others, [], "a run without one of the metrics has no line");
  assert.deepEqual([only.key, only.x, only.y], ["a", [1, 2.5, 4], [4, 1, -2]]);
  assert.deepEqual(linesOf("-(train/loss/eval/loss) + 1", { "train/loss": train, "eval/loss": evaluated })[0].y, [-5, -2, 1], "division after a name");
  assert.deepEqual(linesOf("cummin(train/loss) + diff(train/loss)", { "train/loss": [line("a", [0, 1, 2], [3, 1, 2])] })[0].y, [NaN, -1, 2]);
  assert.deepEqual(linesOf("max(train/loss, 3)", { "train/loss": [line("a", [0, 1, 2], [3, 1, 5])] })[0].y, [3, 3, 5]);
  const smoothed = linesOf("train/loss", { "train/loss": train }, 0.5)[0];
  assert.deepEqual([...smoothed.y], [...page.smooth(smoothed.raw, 0.5)]);
});

test("one metric against another, in the order of the horizontal axis", () => {
  const [curve] = linesOf("eval/accuracy vs train/loss", { "eval/accuracy": [line("a", [0, 1, 2], [0.1, 0.5, 0.9])], "train/loss": [line("a", [0, 1, 2], [3, 2, 1])] });
  assert.deepEqual([curve.x, curve.y], [[1, 2, 3], [0.9, 0.5, 0.1]]);
});

test("an invalid expression names the mistake, its place and the nearest name", () => {
  const fails = (text, message, column) => assert.throws(() => page.parseExpression(text, METRICS), (error) => message.test(error.message) && error.column === column);
  fails("train/los - 1", /unknown metric or function "train\/los"; did you mean "train\/loss"\?/, 1);
  fails("train/loss - ", /is missing/, 14);
  fails("(train/loss", /closing parenthesis is missing/, 12);
  fails("train/loss )", /unexpected "\)"/, 12);
  fails("smooth(lr)", /smooth takes 2 values/, 1);
  fails("1 + 2", /needs a metric/, 6);
  fails("(".repeat(100), /too many nested/, 51);
  assert.deepEqual(page.parseExpression("train/loss_scale * lr", METRICS).names, ["train/loss_scale", "lr"], "the longest name");
});

test("an expression has the unit of its metrics only if its operations keep it", () => {
  const metrics = ["eval/loss", "train/time_s", "a_bytes", "b_bytes"];
  const unit = (text) => page.unitNameOf(page.parseExpression(text, metrics));
  assert.deepEqual(["a_bytes - b_bytes", "max(a_bytes, b_bytes)", "cummax(a_bytes)"].map(unit), ["a_bytes", "a_bytes", "a_bytes"]);
  assert.deepEqual(["a_bytes / b_bytes", "a_bytes * 2", "log(a_bytes)", "a_bytes - train/time_s"].map(unit), ["", "", "", ""]);
  assert.equal(unit("eval/loss vs train/time_s"), "eval/loss");
  assert.deepEqual(["cummin(eval/loss)", "eval/loss - a_bytes"].map((text) => page.parseExpression(text, metrics).runs), [true, false]);
});

test("an axis zoomed between two points has the values of both", () => {
  const line = { x: [500, 1000], y: [1, 2] };
  assert.deepEqual(page.spanY([line], 510, 900, false), [1, 2]);
  assert.deepEqual(page.spanY([line], 400, 600, false), [1, 1]);
  assert.equal(page.spanY([line], 1100, 1200, false), null);
});

test("fields with spaces or parentheses are quoted in filters, and labels with an asterisk are compared as they are", () => {
  assert.deepEqual(["config.optimizer.lr", "min(eval/loss)", "metric.my loss", "metric.F1 (macro)"].map(page.fieldWord), ["config.optimizer.lr", "min(eval/loss)", '"metric.my loss"', '"metric.F1 (macro)"']);
  assert.deepEqual(["metric.F1 (macro)", "min(eval/loss)", "eval/loss"].map(page.metricOf), ["F1 (macro)", "eval/loss", "eval/loss"]);
  const files = page.valuesOf({ field: "config.data.files", type: "text", labels: ["shards/*.tar", "shards/1.tar"], values: [0, 1] });
  assert.equal(page.brushFilter({ "config.data.files": ["shards/*.tar"] }, new Map([[files.field, files]])), '(config.data.files == "shards/*.tar")');
  assert.deepEqual(page.partsOf(files, new Uint8Array(2).fill(1)).map((part) => part.filter), ['config.data.files == "shards/*.tar"', 'config.data.files == "shards/1.tar"']);
});

test("the time of the start is a date", () => {
  const started = page.valuesOf({ field: "created", type: "number", values: [1764312345, 1764398745] });
  assert.match(started.scale.text(1764312345), /^2025-11-28/);
  for (const { label } of started.scale.ticks(4)) assert.match(label, /[-:]/);
});

test("a picture of a chart with names in any script can be encoded", () => {
  const lines = [25, 27, 29, 31].map((letters, i) => ({ key: String(i), label: `${"a".repeat(letters)}🚀🚀🚀🚀🚀`, color: "#000", x: [0, 1], y: [1, 2] }));
  const colors = { paper: "#fff", ink: "#000", soft: "#555", grid: "#ddd" };
  encodeURIComponent(page.chartSvg({ title: "t", name: "t", xName: "step", xKind: "step", lines, range: null, limits: null, log: false, width: 720, height: 320, font: "sans", colors }));
});

test("brushes select runs, as filters and in the URL", () => {
  const columns = new Map([["config.optimizer.lr", { field: "config.optimizer.lr", type: "number", values: [0.001, 0.01, 0.1, null] }], ["config.model.name", { field: "config.model.name", type: "text", labels: ["cnn", "mlp"], values: [0, 1, -1, 1] }]].map(([field, column]) => [field, page.valuesOf(column)]));
  const brushes = { "config.optimizer.lr": [0.005, 0.2], "config.model.name": ["mlp"] };
  assert.deepEqual([...page.insideOf(brushes, columns, 4)], [0, 1, 0, 0]);
  assert.deepEqual(page.parseBrushes(page.brushText(brushes)), brushes);
  assert.deepEqual(page.parseBrushes("{broken"), {});
  assert.equal(page.brushFilter(brushes, columns), 'config.optimizer.lr >= 0.005 and config.optimizer.lr <= 0.2 and config.model.name in ("mlp")');
  const lr = columns.get("config.optimizer.lr");
  assert.equal(lr.scale.log, true);
  assert.ok(Math.abs(lr.scale.position(0.01) - 0.5) < 1e-9);
  assert.deepEqual(page.brushBetween(columns.get("config.model.name"), 0.6, 1), ["mlp"]);
  const summary = page.summaryOf(Float64Array.of(1, 3, NaN, 5), [0, 1, 2, 3]);
  assert.deepEqual([summary.count, summary.mean, summary.low, summary.highest], [3, 3, 1, 3]);
  assert.ok(Math.abs(summary.deviation - Math.sqrt(8 / 3)) < 1e-12);
});

test("keys move the selection of an axis: half of it first, within its ends, and labels one by one", () => {
  const numbers = page.valuesOf({ field: "config.x", type: "number", values: [0, 100] });
  assert.deepEqual([page.steppedBrush(numbers, undefined, 1, false), page.steppedBrush(numbers, undefined, -1, true)], [[50, 100], [0, 50]]);
  const near = (brush, expected) => brush.forEach((value, i) => assert.ok(Math.abs(value - expected[i]) < 1e-9, `${brush} ${expected}`));
  near(page.steppedBrush(numbers, [20, 40], 1, false), [25, 45]);
  near(page.steppedBrush(numbers, [20, 40], -1, true), [20, 35]);
  near(page.steppedBrush(numbers, [20, 40], 1, true), [20, 45]);
  near(page.steppedBrush(numbers, [2, 40], -1, false), [0, 38]);
  near(page.steppedBrush(numbers, [60, 99], 1, false), [61, 100]);
  near(page.steppedBrush(numbers, [60, 62], -1, true), [60, 60]);
  near(page.steppedBrush(numbers, [-500, 900], 1, false), [0, 100]);
  const names = page.valuesOf({ field: "config.name", type: "text", labels: ["a", "b", "c", "d", "e"], values: [0, 1, 2, 3, 4] });
  const steps = (brush, by, isEnd) => page.steppedBrush(names, brush, by, isEnd).join("");
  assert.deepEqual([steps(undefined, 1, false), steps(undefined, -1, false)], ["cde", "abc"]);
  assert.deepEqual([steps(["a", "c"], 1, false), steps(["d", "e"], 1, false), steps(["b", "c"], -1, false)], ["bd", "de", "ab"]);
  assert.deepEqual([steps(["b", "c"], 1, true), steps(["b", "c"], -1, true), steps(["b"], -1, true), steps(["gone"], 1, false)], ["bcd", "b", "b", "cde"]);
  assert.equal(page.brushWords(names, ["b", "c"]), "name: b, c");
});

test("keys move in an order without wrapping, and begin at an end", () => {
  assert.deepEqual([page.stepIn([7, 8, 9], null, 1), page.stepIn([7, 8, 9], null, -1), page.stepIn([7, 8, 9], 8, 1), page.stepIn([7, 8, 9], 9, 1), page.stepIn([7, 8], 5, 1), page.stepIn([], null, 1)], [7, 9, 9, 9, 7, null]);
});

test("a difference from the baseline of an analysis: of settings, metrics and durations, not of labels and dates", () => {
  const differs = (field, values, more = {}) => page.differenceOf(page.valuesOf({ field, type: "number", values, ...more }), 1, 0);
  assert.deepEqual(differs("metric.eval/loss", [2, 1]), { absolute: "−1", percent: "−50 %", tone: "good" });
  assert.deepEqual(differs("min(eval/accuracy)", [0.5, 0.25]), { absolute: "−0.25", percent: "−50 %", tone: "bad" });
  assert.equal(differs("config.optimizer.lr", [0.1, 0.2]).tone, "dim");
  assert.equal(differs("duration", [10, 20]).absolute, "+10 s");
  for (const none of [differs("created", [10, 20]), differs("config.name", [0, 1], { type: "text", labels: ["a", "b"] }), differs("metric.a", ["nan", 1]), page.differenceOf(page.valuesOf({ field: "metric.a", type: "number", values: [1, 2] }), 1, -1)]) assert.equal(none, null);
});

test("only runs with a result can fail to improve the best so far", () => {
  const values = Float64Array.of(3, 1, NaN, 2, NaN, 1);
  const best = page.bestSoFar([0, 2, 1, 4, 3, 5], values, "lower");
  assert.deepEqual(best, [{ run: 0, value: 3 }, { run: 1, value: 1 }]);
  assert.equal(page.countAfter([0, 2, 1, 4, 3, 5], values, 1), 2);
});

test("archived runs are left out, unless the filter compares the tag; a filter that is not valid stays so", () => {
  const others = "not tag = archived";
  assert.equal(page.withoutArchived(""), others);
  for (const filter of ["state = failed", "name ~ archived", "archived", "config.archived = true", "tag = old", "a or b", 'group = "archived"', "tag = a and name in (b, archived)"]) assert.equal(page.withoutArchived(filter), `(${filter}) and ${others}`);
  for (const filter of ["tag = archived", 'not tag = "archived"', "tag != archived", "tag in (a, archived, b)", "loss < 2 and (tag = archived or tag = b)"]) assert.equal(page.withoutArchived(filter), filter);
  for (const filter of ["state =", "not", "a or", "a and", "note ~ \"x", "a) or (b", "step <"]) assert.equal(page.withoutArchived(filter), filter, "otherwise the condition would be a part of it");
  assert.equal(page.shownFilter("a", new URLSearchParams("archived=1")), "a");
  assert.equal(page.shownFilter("a", new URLSearchParams("q=a")), `(a) and ${others}`);
});

test("pruned trials of a sweep are left out of an analysis, unless the filter compares the tag or is not valid", () => {
  assert.deepEqual(page.splitPruned({ filter: "group = a or b" }), { others: { filter: "(group = a or b) and not (tag = pruned and tag = trial:*)" }, pruned: { filter: "(group = a or b) and tag = pruned and tag = trial:*" } });
  assert.deepEqual(page.splitPruned(["x", "y"]).others, { run: ["x", "y"], filter: page.NOT_PRUNED });
  for (const filter of ["tag = pruned", "not tag = pruned", "a or"]) assert.equal(page.splitPruned({ filter }), null);
  const run = (tags) => ({ of: (_, field) => (field === "tag" ? tags : []) });
  const isOut = page.parseFilter(page.PRUNED, ({ of }, field) => of(null, field), 0);
  assert.deepEqual([["pruned", "trial:3"], ["trial:3"], ["pruned"], []].map((tags) => isOut(run(tags))), [true, false, false, false]);
});

test("groups of many values are ranges that contain every run once", () => {
  const values = Array.from({ length: 100 }, (_, i) => i / 10);
  const column = page.valuesOf({ field: "config.a", type: "number", values });
  const parts = page.partsOf(column, new Uint8Array(100).fill(1));
  assert.equal(parts.length, 8);
  assert.deepEqual(parts.flatMap((part) => part.runs), values.map((_, i) => i));
  assert.equal(parts[0].filter, "config.a >= 0 and config.a < 1.2");
});

test("notes: Markdown without HTML, and only links to the web", () => {
  const html = JSON.stringify(page.parseMarkdown("# Head\n\nSome **bold**, `code` and [a link](https://example.org).\n\n- one\n- two\n\n```\nraw <b>\n```\n<script>x</script> [bad](javascript:alert(1))"));
  for (const part of ['"h"', '"bold"', '"code"', "https://example.org", '"one"', "raw <b>", "<script>x</script>"]) assert.ok(html.includes(part), part);
  assert.ok(!html.includes('"href":"javascript'), html);
});

test("shares of a histogram on another grid add up, and bins that overlap in part count in proportion", () => {
  const item = { edges: [0, 1, 3], counts: [10, 30] };
  assert.deepEqual([...page.sharesOf(item, [0, 4], 4)], [0.25, 0.375, 0.375, 0]);
  assert.deepEqual([...page.sharesOf(item, [-1, 3], 2)], [0.25, 0.75]);
  assert.deepEqual([...page.sharesOf({ edges: [2, 2], counts: [5] }, [0, 4], 4)], [0, 0, 1, 0], "all values are equal");
  assert.deepEqual([...page.sharesOf({ edges: [0, 1], counts: [0] }, [0, 1], 2)], [0, 0]);
  assert.deepEqual(page.spanOf([{ edges: [2, 2], counts: [5] }]), [1.5, 2.5]);
});

test("quantiles and bins of a histogram", () => {
  const item = { edges: [0, 1, 3], counts: [10, 30] };
  assert.deepEqual([0.125, 0.25, 0.5, 1].map((fraction) => page.quantileOf(item, fraction)), [0.5, 1, 1 + 2 / 3, 3]);
  assert.ok(Number.isNaN(page.quantileOf({ edges: [0, 1], counts: [0] }, 0.5)));
  assert.deepEqual([-0.1, 0, 1, 3, 3.1].map((value) => page.binAt(item, value)), [-1, 0, 1, 1, -1]);
});

test("a step axis with uneven steps: each step reaches halfway to its neighbors; of a repeated step, the last counts", () => {
  assert.deepEqual(page.stepEdges([0, 10, 100]), [-5, 5, 55, 145]);
  assert.deepEqual([-9, 4, 5, 54, 55, 999].map((at) => page.partAt([-5, 5, 55, 145], at)), [0, 0, 1, 1, 2, 2]);
  assert.deepEqual(page.stepEdges([7]), [6.5, 7.5]);
  assert.deepEqual(page.byStep([{ step: 5, at: 1 }, { step: 2, at: 2 }, { step: 5, at: 3 }]), [{ step: 2, at: 2 }, { step: 5, at: 3 }]);
  assert.deepEqual([page.thinned(5, 10), page.thinned(5, 3), page.thinned(1, 3)], [[0, 1, 2, 3, 4], [0, 2, 4], [0]]);
});

test("the color scale of histograms grows with the share up to the largest", () => {
  const shades = [1e-9, 0.25, 0.5, 1, 7].map(page.shadeOf);
  assert.ok(shades[0] > 0.05, "the smallest share differs from the background");
  assert.ok(Math.abs(shades[1] - 0.54) < 1e-12, "a square root");
  assert.deepEqual(shades.slice(3), [1, 1]);
});

const scored = (columns, rows) => ({ versions: [], at: 0, columns, rows, num_rows: rows.length });

test("tables with labels and scores: binary, one column per class, one row per sample and class", () => {
  assert.equal(page.isScored(scored(["label", "score"], [[1, 0.3], [false, 0.2]])), true);
  assert.equal(page.isScored(scored(["label", "score"], [["cat", 0.3]])), false, "which class is positive is unknown");
  assert.equal(page.isScored(scored(["label", "score/a", "score/b"], [["a", 1, 2]])), true);
  assert.equal(page.isScored(scored(["sample", "score"], [[1, 0.3]])), false);
  assert.equal(page.isScored(scored(["class", "label", "score"], [])), false, "no rows");
  assert.throws(() => page.classScores(scored(["label", "score"], [[1, 0.3], ["cat", 0.2]])), /the value "cat", but next to the column score it must be 0, 1, false or true/);
  const columns = page.classScores(scored(["label", "score/a", "score/b"], [["a", 1, 2], ["b", "nan", 4]]));
  assert.deepEqual(columns.map(({ name, positive, score }) => [name, [...positive], [...score]]), [["a", [1], [1]], ["b", [0, 1], [2, 4]]]);
  const rows = page.classScores(scored(["class", "label", "score"], [["x", true, 1], ["y", false, 2], ["x", false, 3]]));
  assert.deepEqual(rows.map(({ name, positive }) => [name, [...positive]]), [["x", [1, 0]], ["y", [0]]]);
  const confusion = page.confusionOfScores(scored(["label", "score/a", "score/b"], [["a", 1, 2], ["a", 3, 2], ["b", 1, 1]]));
  assert.deepEqual(confusion.rows, [["a", "b", 1], ["a", "a", 1], ["b", "a", 1]]);
  const partial = page.confusionOfScores(scored(["label", "score/a", "score/b"], [["b", "nan", 2], ["b", "nan", "nan"], ["a", "-inf", "nan"]]));
  assert.deepEqual(partial.rows, [["b", "b", 1], ["a", "a", 1]], "NaN is not a score");
});

test("labels for which there is no column of scores", () => {
  const rows = [["a", 1, 2], [3, 1, 2], ["c", 1, 2], [3, 1, 2]];
  assert.deepEqual(page.labelsWithoutScores(scored(["label", "score/a", "score/b"], rows)), ["3", "c"]);
  assert.deepEqual(page.labelsWithoutScores(scored(["label", "score/a", "score/3"], rows.slice(0, 2))), []);
  assert.deepEqual(page.labelsWithoutScores(scored(["label", "score"], [[1, 0.3]])), []);
});

test("thresholds are from the smallest to the largest finite score, with the usual one", () => {
  const thresholds = (...score) => page.thresholdsOf({ name: "", positive: new Uint8Array(score.length), score: Float64Array.from(score) });
  assert.deepEqual(thresholds(0.6, 0.9), { low: 0.5, high: 0.9, usual: 0.5 });
  assert.deepEqual(thresholds(-3, 2), { low: -3, high: 2, usual: 0 });
  assert.deepEqual(thresholds(-Infinity, -7, Infinity), { low: -7, high: 0, usual: 0 });
  assert.deepEqual(thresholds(), { low: 0.5, high: 0.5, usual: 0.5 });
});

// The labels 0 0 1 1 0 1 with the scores 0.1 0.4 0.35 0.8 0.4 0.9, in scikit-learn's order.
const SKLEARN_PRECISION = [1 / 2, 3 / 5, 1 / 2, 1, 1, 1];
const SKLEARN_RECALL = [1, 1, 2 / 3, 2 / 3, 1 / 3, 0];

test("logged points of precision_recall_curve(), whose recall descends, keep their vertical steps", () => {
  const points = SKLEARN_RECALL.map((recall, i) => [SKLEARN_PRECISION[i], recall]);
  const descending = page.loggedCurves(scored(["precision", "recall"], points));
  const [curve] = descending.curves;
  assert.equal(descending.kind, "pr");
  assert.deepEqual([curve.x, curve.y], [[...SKLEARN_RECALL].reverse(), [...SKLEARN_PRECISION].reverse()]);
  assert.ok(Math.abs(curve.area - (2 / 3 + (1 / 3) * ((1 / 2 + 3 / 5) / 2))) < 1e-12, `${curve.area}`);
  assert.deepEqual(page.loggedCurves(scored(["precision", "recall"], [...points].reverse())).curves, descending.curves, "ascending points are drawn alike");
});

test("logged points: those that are not finite are left out, and both columns of an ROC curve are needed", () => {
  const { kind, curves } = page.loggedCurves(scored(["class", "fpr", "tpr"], [["a", 0, 0], ["b", "nan", 0], ["a", "nan", 1], ["a", 0, 0.5], ["a", 1, 1], ["a", 0.5, "inf"], ["a", 0.5, 1]]));
  assert.equal(kind, "roc");
  assert.deepEqual(curves.map(({ name, x, y, area }) => [name, x, y, area]), [["a", [0, 0, 0.5, 1], [0, 0.5, 1, 1], 0.875], ["b", [], [], NaN]]);
  const mixed = scored(["precision", "recall", "tpr"], [[1, 0, 9], [0.5, 1, 9]]);
  assert.equal(page.isCurve(mixed), true);
  assert.deepEqual([page.loggedCurves(mixed).kind, page.loggedCurves(mixed).curves[0].area], ["pr", 0.75]);
  assert.equal(page.isCurve(scored(["precision", "recall", "f1"], [])), false);
});

test("ROC and precision-recall by hand, with equal scores; and without positive samples", () => {
  const scores = { name: "", positive: Uint8Array.of(1, 0, 1, 0), score: Float64Array.of(0.9, 0.8, 0.8, 0.1) };
  const roc = page.rocCurve(scores);
  assert.deepEqual([roc.x, roc.y, roc.area, roc.positives, roc.count], [[0, 0, 0.5, 1], [0, 0.5, 1, 1], 0.875, 2, 4]);
  const pr = page.precisionRecallCurve(scores);
  assert.ok(Math.abs(pr.area - (0.5 + (0.5 * 2) / 3)) < 1e-12);
  assert.deepEqual(page.countsAt(scores, 0.8), { truePositives: 2, falsePositives: 1, falseNegatives: 0, trueNegatives: 1 });
  const none = { name: "", positive: Uint8Array.of(0, 0), score: Float64Array.of(1, 2) };
  assert.deepEqual([page.rocCurve(none).area, page.precisionRecallCurve(none).area], [NaN, NaN]);
  assert.equal(page.areaUnder([0, 0.5, 1], [1, 1, 0]), 0.75);
});

const numbers = (field, values) => page.valuesOf({ field, type: "number", values });

test("cells over two columns: logarithmic where the values are, one cell per value of few, means of the runs", () => {
  const lr = numbers("config.lr", Array.from({ length: 64 }, (_, i) => 10 ** (-4 + i / 21)));
  const width = numbers("config.width", Array.from({ length: 64 }, (_, i) => [32, 64, 128][i % 3]));
  const loss = numbers("metric.loss", Array.from({ length: 64 }, (_, i) => (i === 5 ? "nan" : i)));
  const cells = page.cellsOf(lr, width, loss, new Uint8Array(64).fill(1));
  assert.deepEqual([lr.scale.log, cells.runs, cells.xEdges.length, cells.yEdges.length], [true, 63, 5, 4]);
  assert.equal(cells.count.reduce((a, b) => a + b), 63);
  const sums = cells.mean.map((mean, i) => mean * cells.count[i]);
  assert.ok(Math.abs(sums.reduce((a, b) => a + b) - (63 * 64) / 2 + 5) < 1e-9);
  // Of the first quarter of the logarithm, the runs with the smallest width.
  const expected = [0, 3, 6, 9, 12, 15].filter((i) => i !== 5);
  const own = expected.filter((i) => (i / 63 + 0.045) / 1.09 < 0.25);
  assert.equal(cells.mean[0], own.reduce((a, b) => a + b) / own.length);
  const some = page.cellsOf(lr, width, loss, Uint8Array.from({ length: 64 }, (_, i) => Number(i < 9)));
  assert.equal(some.runs, 8);
  assert.ok(Number.isNaN(some.mean.at(-1)), "a cell without runs is blank");
});

test("runs with equal values are moved apart on an axis of few values, up to a part of the gap, and not at all on one of many", () => {
  const offsets = (values) => Array.from({ length: 100 }, (_, run) => page.spreadOf(numbers("config.a", values))(run));
  const apart = offsets([0, 0, 1, 2]);
  assert.ok(new Set(apart).size > 50 && apart.every((offset) => Math.abs(offset) < 0.5 / 2), "the gap is half of the axis");
  const names = page.valuesOf({ field: "tag", type: "text", labels: ["a", "b"], values: [0, 0, 1, 1] });
  assert.equal(new Set(page.placesOf(names, names).map(String)).size, 4, "labels are moved on both axes");
  for (const count of [13, 15, 20, 30]) assert.deepEqual(new Set(offsets(Array.from({ length: count }, (_, i) => i))), new Set([0]), `${count} values`);
});

test("coordinates and results of few different values are drawn where they are", () => {
  const coordinates = page.linearValues("x", Float64Array.of(0, 0, 1, 4));
  const drawn = page.placesOf(coordinates, page.linearValues("y", Float64Array.of(1, 1, 2, 3)));
  assert.deepEqual(drawn[0], drawn[1]);
  const [left, right, third] = [0, 3, 2].map((i) => drawn[i][0]);
  assert.ok(Math.abs((third - left) / (right - left) - 1 / 4) < 1e-12, "in proportion");
  const result = numbers("metric.eval/accuracy", [0.5, 0.5, 0.75]);
  assert.equal(page.placesOf(result, result)[0][0], page.placesOf(result, result)[1][0]);
});

test("an interpolated surface follows a plane, is blank far from runs, and its contours are where the level is", () => {
  const n = 30;
  const at = Array.from({ length: n * n }, (_, i) => [(i % n) / (n - 1), Math.floor(i / n) / (n - 1)]);
  const [x, y, z] = [numbers("config.x", at.map(([px]) => px)), numbers("config.y", at.map(([, py]) => py)), numbers("metric.z", at.map(([px, py]) => px + 2 * py))];
  const all = page.smoothOf(x, y, z, new Uint8Array(n * n).fill(1));
  const value = (column, row) => all.mean[row * page.COLUMNS + column];
  // In the middle of the kernel's support, a plane is reproduced.
  const [column, row] = [page.COLUMNS / 2, page.ROWS / 2];
  const position = (unit) => unit * 1.09 - 0.045;
  assert.ok(Math.abs(value(column, row) - position((column + 0.5) / page.COLUMNS) - 2 * position((row + 0.5) / page.ROWS)) < 0.02);
  for (const [x0, y0] of page.contourOf(all, 1.5).filter(([px, py]) => Math.abs(px - 0.5) < 0.2 && Math.abs(py - 0.5) < 0.2)) assert.ok(Math.abs(position(x0) + 2 * position(y0) - 1.5) < 0.03, `${x0} ${y0}`);
  assert.ok(page.contourOf(all, 1.5).length > 20);
  assert.equal(page.contourOf(all, 99).length, 0);
  assert.equal(page.bestOf(all, "lower", page.axisOf(x), page.axisOf(y)) % page.COLUMNS < 8, true);
  const corner = page.smoothOf(x, y, z, Uint8Array.from(at, ([px, py]) => Number(px < 0.3 && py < 0.3)));
  assert.ok(Number.isNaN(corner.mean.at(-1)));
  assert.ok(Number.isFinite(corner.mean[0]));
});

test("a difference from the baseline: absolute, in percent if that has a meaning, and whether it is better", () => {
  assert.deepEqual(page.deltaOf("eval/loss", 0.9, 1), { absolute: "−0.1", percent: "−10 %", tone: "good" });
  assert.deepEqual(page.deltaOf("eval/accuracy", 0.9, 1), { absolute: "−0.1", percent: "−10 %", tone: "bad" });
  assert.deepEqual(page.deltaOf("train/samples_per_s", 3, 2), { absolute: "+1", percent: "+50 %", tone: "good" });
  assert.equal(page.deltaOf("system/cpu_percent", 3, 2).tone, "dim");
  assert.deepEqual(page.deltaOf("", 0.5, 0), { absolute: "+0.5", percent: null, tone: "dim" });
  assert.deepEqual(page.deltaOf("eval/loss", -1, -2), { absolute: "+1", percent: "+50 %", tone: "bad" });
  for (const [value, base] of [[1, 1], [NaN, 1], [1, NaN], [Infinity, 1]]) assert.equal(page.deltaOf("eval/loss", value, base), null);
});

test("the output of git diff by file: names, lines, and files without lines", () => {
  const files = page.parseDiff([
    "diff --git a/a b.py b/a b.py", "index 1..2 100644", "--- a/a b.py\t", "+++ b/a b.py\t", "@@ -1,3 +1,3 @@ def f():", " same", "--- removed", "+++ added", "\\ No newline at end of file",
    "diff --git a/old.py b/new.py", "similarity index 100%", "rename from old.py", "rename to new.py",
    "diff --git a/x.bin b/x.bin", "index 1..2", "Binary files a/x.bin and b/x.bin differ",
    "diff --git a/gone b/gone", "deleted file mode 100644", "--- a/gone", "+++ /dev/null", "@@ -1 +0,0 @@", "-last", ""].join("\n"));
  assert.deepEqual(files.map(({ name, added, removed }) => [name, added, removed]), [["a b.py", 1, 1], ["new.py", 0, 0], ["x.bin", 0, 0], ["gone", 0, 1]]);
  assert.deepEqual(files[0].lines.map(({ kind, text }) => [kind, text]), [["place", "@@ -1,3 +1,3 @@ def f():"], ["same", "same"], ["removed", "-- removed"], ["added", "++ added"], ["same", " No newline at end of file"]]);
  assert.deepEqual(files.slice(1).map(({ notes }) => notes.length), [3, 1, 1]);
  assert.deepEqual(page.parseDiff(""), []);
});

/** A vector of normally distributed numbers (Box-Muller), the same each time. */
function normalNumbers(count, seed) {
  let state = seed;
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32 + 2 ** -33;
  return Array.from({ length: count }, () => Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next()));
}

test("principal components: the variances are the eigenvalues of the covariance, computed in full, and coordinates have no correlation", () => {
  const [rows, width] = [300, 24];
  const noise = normalNumbers(rows * width, 7);
  const weights = normalNumbers(3 * width, 8);
  const factors = normalNumbers(3 * rows, 9);
  const values = Float32Array.from({ length: rows * width }, (_, i) => [6, 3, 2].reduce((sum, size, k) => sum + size * factors[3 * Math.floor(i / width) + k] * weights[k * width + (i % width)], 5 + noise[i]));
  const { scores, shares } = page.principalComponents({ rows, width, values });
  const mean = Array.from({ length: width }, (_, k) => scoresMean(values, rows, width, k));
  const centered = (row, k) => values[row * width + k] - mean[k];
  const covariance = Array.from({ length: width }, (_, a) => Array.from({ length: width }, (__, b) => Array.from({ length: rows }, (___, row) => centered(row, a) * centered(row, b)).reduce((x, y) => x + y)));
  const { values: variances, vectors } = page.eigenOf(covariance);
  const total = variances.reduce((x, y) => x + y);
  assert.equal(scores.length, 5);
  shares.forEach((share, k) => assert.ok(Math.abs(share - variances[k] / total) < 1e-6, `component ${k}: ${share}, ${variances[k] / total}`));
  // Of the three planted directions, each coordinate is that of the full decomposition, up to the sign.
  for (const k of [0, 1, 2]) {
    const own = Array.from({ length: rows }, (_, row) => vectors[k].reduce((sum, weight, i) => sum + weight * centered(row, i), 0));
    const sign = Math.sign(own[0] * scores[k][0]);
    own.forEach((value, row) => assert.ok(Math.abs(sign * value - scores[k][row]) < 1e-3 * Math.sqrt(variances[k]), `component ${k} of row ${row}`));
  }
  const product = scores[0].reduce((sum, value, row) => sum + value * scores[1][row], 0);
  assert.ok(Math.abs(product) < 1e-3 * variances[1], "no correlation");
  assert.deepEqual(page.principalComponents({ rows, width, values }).scores, scores, "the same each time");
});

const scoresMean = (values, rows, width, k) => Array.from({ length: rows }, (_, row) => values[row * width + k]).reduce((x, y) => x + y) / rows;

test("principal components of few, equal and plain vectors", () => {
  const equal = page.principalComponents({ rows: 3, width: 4, values: new Float32Array(12).fill(2) });
  assert.deepEqual([equal.shares, [...equal.scores[0]]], [[0, 0, 0, 0], [0, 0, 0]]);
  const line = page.principalComponents({ rows: 3, width: 3, values: Float32Array.of(0, 0, 0, 1, 2, 2, 2, 4, 4) });
  assert.ok(Math.abs(line.shares[0] - 1) < 1e-6);
  [-3, 0, 3].forEach((at, row) => assert.ok(Math.abs(line.scores[0][row] - at) < 1e-5, "the largest weight is positive"));
  const plain = page.principalComponents({ rows: 2, width: 2, values: Float32Array.of(1, 10, 3, 10) });
  assert.deepEqual([[...plain.scores[0]], [...plain.scores[1]], plain.shares], [[1, 3], [10, 10], [1, 0]], "two numbers are coordinates");
  const none = page.principalComponents({ rows: 0, width: 3, values: new Float32Array(0) });
  assert.deepEqual(none.scores.map((score) => score.length), [0, 0, 0]);
});

/** `size` vectors around each of three centers, group by group. */
function threeGroups(size, width, spread) {
  const centers = normalNumbers(3 * width, 21);
  const noise = normalNumbers(3 * size * width, 22);
  return { rows: 3 * size, width, values: Float32Array.from(noise, (value, i) => 5 * centers[Math.floor(i / width / size) * width + (i % width)] + spread * value) };
}

const placesOf = ([x, y]) => Array.from(x, (_, i) => [x[i], y[i]]);
const between = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);

test("UMAP: three groups are apart, each point is among its own group, and the places are the same each time", () => {
  const [size, width] = [40, 12];
  const vectors = threeGroups(size, width, 1);
  const reported = [];
  const layout = page.umapLayout({ vectors, ...page.USUAL }, (progress) => reported.push(page.fractionOf(progress)));
  const places = placesOf(layout);
  assert.equal(places.length, 3 * size);
  const centers = [0, 1, 2].map((group) => [0, 1].map((k) => places.slice(group * size, (group + 1) * size).reduce((sum, place) => sum + place[k], 0) / size));
  const widest = Math.max(...places.map((place, i) => between(place, centers[Math.floor(i / size)])));
  const nearest = Math.min(between(centers[0], centers[1]), between(centers[0], centers[2]), between(centers[1], centers[2]));
  assert.ok(nearest > 2 * widest, `groups ${nearest} apart, up to ${widest} wide`);
  reported.forEach((fraction, i) => assert.ok(fraction >= (reported[i - 1] ?? 0) && fraction <= 1, `progress ${fraction} after ${reported[i - 1]}`));
  assert.equal(reported.at(-1), 1);
  assert.ok(reported.includes(0.5), "the neighbors are half of it");
  assert.deepEqual(page.umapLayout({ vectors, ...page.USUAL }, () => undefined), layout, "the same each time");
  // The minimum distance keeps neighbors apart.
  const gap = (distance) => {
    const own = placesOf(page.umapLayout({ vectors, neighbors: 15, distance }, () => undefined));
    return own.reduce((sum, place, i) => sum + Math.min(...own.filter((_, k) => k !== i).map((other) => between(place, other))), 0) / own.length;
  };
  assert.ok(gap(0.8) > 1.5 * gap(0), `${gap(0.8)} and ${gap(0)}`);
});

test("UMAP of few and of equal vectors has finite places; of fewer than four, there is none", () => {
  const finite = (vectors, neighbors) => assert.ok(page.umapLayout({ vectors, neighbors, distance: 0.1 }, () => undefined).every((score) => score.length === vectors.rows && score.every(Number.isFinite)));
  finite({ rows: 4, width: 3, values: Float32Array.of(0, 0, 0, 1, 2, 2, 2, 4, 4, 5, 5, 1) }, 100);
  finite({ rows: 30, width: 4, values: new Float32Array(120).fill(2) }, 5);
  finite({ rows: 30, width: 4, values: Float32Array.from({ length: 120 }, (_, i) => (i < 60 ? 1 : 3)) }, 15);
  assert.throws(() => page.umapLayout({ vectors: { rows: 3, width: 3, values: new Float32Array(9) }, ...page.USUAL }, () => undefined), /at least 4 vectors, and there are 3/);
});

test("the nearest neighbors are those of all pairs, each vector first among its own, also if others are equal", () => {
  const vectors = threeGroups(20, 5, 2);
  vectors.values.set(vectors.values.slice(0, 5), 35 * 5); // vector 35 is vector 0
  const { rows, width, values } = vectors;
  const counted = [];
  const { indices, distances } = page.nearestNeighbors(vectors, 8, (done) => counted.push(done));
  assert.deepEqual(counted, Array.from({ length: rows }, (_, i) => i + 1));
  for (let row = 0; row < rows; row++) {
    const all = Array.from({ length: rows }, (_, other) => Math.hypot(...Array.from({ length: width }, (__, k) => values[row * width + k] - values[other * width + k])));
    assert.equal(indices[row][0], row);
    assert.equal(new Set(indices[row]).size, 8);
    [...all].sort((a, b) => a - b).slice(0, 8).forEach((distance, k) => {
      assert.ok(Math.abs(distances[row][k] - distance) < 1e-9, `neighbor ${k} of ${row}`);
      assert.ok(Math.abs(all[indices[row][k]] - distance) < 1e-9);
    });
  }
});

test("the choices of UMAP are listed values, and too many vectors are thinned evenly", () => {
  assert.deepEqual(["30", "", "31", "x", "1e9"].map((text) => page.listed(text, page.NEIGHBORS, 15)), [30, 15, 15, 15, 15]);
  assert.equal(page.listed("0", page.DISTANCES, 0.1), 0);
  assert.deepEqual(page.evenly(10, 4), [0, 2, 5, 7]);
  assert.deepEqual(page.evenly(3, 4), [0, 1, 2]);
  assert.deepEqual(page.evenly(0, 4), []);
  assert.deepEqual(page.vectorsAt({ rows: 3, width: 2, values: Float32Array.of(1, 2, 3, 4, 5, 6) }, [0, 2]), { rows: 2, width: 2, values: Float32Array.of(1, 2, 5, 6) });
});

test("the calls of modules are a tree, and inputs are named by the modules that made them", () => {
  const columns = ["call", "module", "type", "output", "inside", "inputs"];
  const rows = [[1, "(the model)", "Net", "2 × 3", null, ""], [2, "block", "Block", "2 × 3", 1, "input"], [3, "block.a", "Linear", "2 × 3", 2, "input"],
    [4, "block.b", "ReLU", "2 × 3", 2, "3"], [5, "block.a", "Linear", "2 × 3", 2, "3, ?"], [6, "head", "Linear", "2 × 3", 1, "2"], [7, "lost", "Linear", "1", 9, "8"]];
  assert.ok(page.hasCalls(columns) && !page.hasCalls(columns.slice(1)));
  const top = page.callTree(columns, rows);
  const shape = (calls) => calls.map(({ call, parts }) => (parts.length > 0 ? [call, shape(parts)] : call));
  assert.deepEqual(shape(top), [[1, [[2, [3, 4, 5]], 6]], 7]);
  const [block, head] = top[0].parts;
  const [a, b, again] = block.parts;
  assert.deepEqual([page.ownName(a.module, block.module), page.ownName(block.module, top[0].module), page.ownName("blocks", "block")], ["a", "block", "blocks"]);
  const text = (call, before, siblings, around) => page.sourceText(call, before, siblings, around);
  assert.deepEqual([text(a, undefined, block.parts, "block"), text(b, a, block.parts, "block"), text(again, b, block.parts, "block"), text(head, block, top[0].parts, "(the model)"), text(top[1], top[0], top, "")],
    ["the input", null, "a, other operations", null, "call 8"]);
  assert.equal(text(top[0], undefined, top, ""), "");
});

test("rows are calls of modules if each has the next number and is inside an earlier one, at most 100 deep", () => {
  const columns = ["call", "module", "type", "output", "inside", "inputs"];
  const are = (...pairs) => page.areCalls(columns, pairs.map(([call, inside]) => [call, "a", "b", "", inside, ""]));
  assert.ok(are([1, null], [2, 1], [3, 2], [4, 1], [5, null]));
  for (const pairs of [[[2, null]], [[1, null], [1, null]], [["1", null]], [[1, 1]], [[1, null], [2, 3], [3, 1]], [[1, "length"]], [[1, -1]], [[1, null], [2, 1.5]]]) assert.ok(!are(...pairs), JSON.stringify(pairs));
  const chain = (depth) => are(...Array.from({ length: depth }, (_, i) => [i + 1, i || null]));
  assert.deepEqual([chain(100), chain(101), chain(50000)], [true, false, false]);
});

test("columns with vectors: by name, and rows with another length or values that are not finite are left out", () => {
  const rows = [["a", [1, 2, 3], [1, 2]], ["b", [1, "nan", 3], [1, 2]], ["c", [1, 2], [1, 2]], ["d", null, [1, 2]], ["e", [4, 5, 6], [1, 2]]];
  assert.deepEqual(page.vectorColumns(["label", "vector", "box"], rows), ["vector"]);
  assert.deepEqual(page.vectorColumns(["label", "vector/first", "vector/last"], rows), ["vector/first", "vector/last"]);
  assert.deepEqual(page.vectorColumns(["vector", "x"], [["text", 1]]), []);
  assert.deepEqual(page.vectorColumns(["vector"], []), []);
  assert.deepEqual(page.componentColumns(["vector", "vector/deep", "x"], [[[1, 2], [1, 2, 3], 1]]), ["vector/deep"]);
  assert.deepEqual(page.componentColumns(["vector"], []), []);
  const { vectors, kept } = page.vectorsOf(rows, 1);
  assert.deepEqual([vectors.rows, vectors.width, [...vectors.values], kept], [2, 3, [1, 2, 3, 4, 5, 6], [0, 4]]);
});

test("a column of a table is numeric with values that are not finite, but not if it has only texts", () => {
  assert.ok(page.isNumeric([1, "nan", null, "-inf"]));
  for (const cells of [["nan", "inf"], [1, "one"], [null], [1, true], [1, [2]]]) assert.ok(!page.isNumeric(cells), JSON.stringify(cells));
});

test("the first click on a column header shows the best, the newest, or A first", () => {
  const first = (field, type) => page.firstOrder(page.column(field, type ? [{ field, type, runs: 1 }] : []));
  assert.deepEqual(["metric.eval/accuracy", "metric.eval/loss", "min(train/loss)", "created", "duration", "name", "state", "metric.train/lr"].map((field) => first(field)),
    ["-metric.eval/accuracy", "metric.eval/loss", "min(train/loss)", "-created", "-duration", "name", "state", "-metric.train/lr"]);
  assert.deepEqual([first("config.optimizer.lr", "number"), first("config.optimizer.name", "text")], ["-config.optimizer.lr", "config.optimizer.name"]);
});

test("rows with the columns x, y and z are points; those that are not finite are left out", () => {
  const columns = ["x", "label", "y", "z"];
  const rows = [[1, "a", 2, 3], [1, "b", "nan", 3], [4, "c", 5, "inf"], [7, "d", 8, 9]];
  assert.equal(page.hasPoints(columns, rows), true);
  assert.equal(page.hasPoints(["x", "y"], [[1, 2]]), false);
  assert.equal(page.hasPoints(["x", "y", "z"], [["a", 1, 2]]), false);
  const { projection, kept } = page.pointsOf(rows, columns);
  assert.deepEqual([kept, projection.scores.map((score) => [...score])], [[0, 3], [[1, 7], [2, 8], [3, 9]]]);
});

globalThis.location ??= { hash: "" };
globalThis.addEventListener ??= () => {};
const live = await compiled("runs/rows.ts", "store.ts", "data/http.ts");
const serverInfo = async () => ({ seq: 0, indexing: { done: 1, total: 1 } });
const turn = () => new Promise(setImmediate);

test("a page of the table that could not be loaded is requested again after the next change, and not before", async () => {
  let requests = 0;
  const runs = async () => {
    if (++requests === 1) throw new Error("unreachable");
    return { matching: 1, runs: [{ id: "a" }] };
  };
  await live.initialize({ live: false, server: serverInfo, runs });
  const rows = new live.Rows();
  const errors = [];
  rows.onError = (error) => errors.push(error.message);
  const section = { group: null, filter: "", count: 1, open: true };
  rows.reset([section], "-created", []);
  for (let i = 0; i < 3; i++) {
    assert.equal(rows.row(0).run, null);
    await turn();
  }
  assert.deepEqual([requests, errors], [1, ["unreachable"]]);
  rows.reset([section], "-created", []);
  rows.row(0);
  await turn();
  assert.equal(rows.row(0).run.id, "a");
  assert.equal(requests, 2);
});

test("the filter of a group selects its own runs: texts with an asterisk, numbers that are not finite", () => {
  const groups = [["a*", "a*"], ["ab", "ab"], ["A*", "A*"], ['say "a"\\', 'say "a"\\'], ["nan", NaN], ["inf", Infinity], ["-inf", -Infinity], [0.1, 0.1], [true, true], [null, undefined]];
  for (const [value, own] of groups) {
    const matches = page.parseFilter(live.groupFilter("", "config.a", value), (run) => (run === undefined ? [] : [run]), 0);
    assert.deepEqual(groups.map(([, run]) => run).filter(matches), [own], `${value}`);
  }
});

test("a run that is created again is not shown as deleted", async () => {
  let apply;
  await live.initialize({ live: true, server: serverInfo, watch: (_, onChanges) => (apply = onChanges) });
  const change = (runs, removed) => {
    apply({ seq: 1, runs: runs.map((id) => ({ id, version: 1 })), removed, indexing: { done: 1, total: 1 }, reset: false });
    return [...live.removed.value];
  };
  assert.deepEqual(change([], ["a", "b"]), ["a", "b"]);
  assert.deepEqual(change(["a"], []), ["b"]);
  assert.deepEqual(change(["c"], ["c"]), ["b"]);
});

test("the newest images are requested in pages, and the page knows whether there are earlier ones", async (context) => {
  const requested = [];
  context.mock.method(globalThis, "fetch", async (url) => {
    const query = new URL(url, "http://localhost").searchParams;
    const [offset, limit] = [Number(query.get("offset")), Number(query.get("limit"))];
    requested.push([offset, limit]);
    const items = Array.from({ length: 450 }, (_, at) => ({ at })).slice(offset, offset + limit);
    return Response.json({ items, more: offset + limit < 450 });
  });
  const first = await live.http.images("a", "digits", 200);
  assert.deepEqual([first.items.length, first.more, requested], [200, true, [[0, 200]]]);
  const all = await live.http.images("a", "digits", 800);
  assert.deepEqual([all.items.map(({ at }) => at), all.more], [Array.from({ length: 450 }, (_, at) => at), false]);
  assert.deepEqual(requested.slice(1), [[0, 200], [200, 200], [400, 200]]);
});
