// Every view of the dashboard, through user interactions.
import assert from "node:assert/strict";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { drawn, showView, violations, visit } from "./browser.mjs";
import { agentToEnd, begin, directory, end, exported, LOCKSTEP, open, record, resume, run, runs, serve, show, train, waitFor } from "./world.mjs";

const SCRIPT = '<img src=x onerror="window.pwned=1">';
let address;
const ids = {};

const git = (...words) => run("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", ...words).trim();
const commits = {};

before(async () => {
  git("init", "--quiet", "--initial-branch", "main", ".");
  git("commit", "--quiet", "--allow-empty", "--message", "Begin");
  commits.first = git("rev-parse", "HEAD");
  ids.first = train("first");
  git("switch", "--quiet", "--create", "wider");
  git("commit", "--quiet", "--allow-empty", "--message", "Wider");
  commits.second = git("rev-parse", "HEAD");
  ids.second = train("second", "optimizer.lr=0.02", "tracking.group=study", "tracking.modules=true");
  record("gallery");
  record("charts", "200", "500");
  record("ranks", "16", "300");
  record("many", "300");
  const killed = await begin("killed", "train.epochs=1000");
  await waitFor(() => exported(killed.id).length > 50, "the run to log");
  killed.process.kill("SIGKILL");
  ids.killed = killed.id;
  await waitFor(() => show(killed.id).state === "killed", "the agent to record the outcome");
  // A log with a corrupt middle part.
  ids.corrupt = train("corrupt");
  const log = join(runs, ids.corrupt, "events", "rank-00000.lsev");
  const bytes = readFileSync(log);
  bytes.fill(0x5a, Math.floor(bytes.length / 2), Math.floor(bytes.length / 2) + 64);
  writeFileSync(log, bytes);
  writeFileSync(join(runs, "gallery-1", `${SCRIPT.replaceAll("/", "")}.txt`), "a file");
  address = await serve();
  await waitFor(async () => {
    const { indexing } = await (await fetch(`${address}/api/server`)).json();
    return indexing.total > 0 && indexing.done === indexing.total;
  }, "all runs to be read");
});

after(end);

const at = (hash) => `${address}/#/${hash}`;

const onPage = (hash, work, options) => visit(`${address}/#/${hash}`, work, options);

test("the table lists, filters, sorts and groups all runs", () => onPage("", async (page) => {
  await page.getByText("307 runs", { exact: true }).waitFor();
  assert.ok((await page.locator(".runs-row").count()) < 60, "only the rows in view are rendered");
  await page.getByLabel("Filter runs").fill("name = first");
  await page.getByText("1 of 307 runs").waitFor();
  await page.getByRole("link", { name: "first", exact: true }).waitFor();
  await page.getByLabel("Filter runs").fill("state = ");
  await page.locator(".filter-error:not(:empty)").waitFor();
  await page.getByLabel("Filter runs").fill("eval/accuracy >= 0.99 and name ~ short");
  await page.getByText("3 of 307 runs").waitFor();
  assert.match(page.url(), /q=eval/, "the URL contains the filter");
  await page.getByLabel("Filter runs").fill("name ~ short");
  await page.keyboard.press("Escape");
  await page.getByRole("columnheader", { name: "Run" }).getByRole("button").click();
  await page.getByRole("link", { name: "short-00000" }).waitFor();
  await page.getByRole("columnheader", { name: "Run" }).getByRole("button").click();
  await page.getByRole("link", { name: "short-00299" }).waitFor();
  await page.getByLabel("Filter runs").fill("");
  await page.getByLabel("Group by").selectOption("group");
  await page.getByText("study", { exact: true }).waitFor();
  page.consoleErrors = page.consoleErrors.filter((text) => !/status of 400/.test(text)); // the invalid filter
}));

test("state marks show the outcome", () => onPage(`?q=${encodeURIComponent("not name ~ short")}`, async (page) => {
  const row = (name) => page.locator(".runs-row").filter({ has: page.getByRole("link", { name, exact: true }) });
  await row("first").locator(".state.finished").waitFor();
  await row("killed").locator(".state.killed", { hasText: "killed" }).waitFor();
  await row("corrupt").locator(".state.corrupt").waitFor();
}));

test("selected columns persist", () => onPage(`?q=${encodeURIComponent("name = first")}`, async (page) => {
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByLabel("Search columns").fill("momentum");
  await page.getByRole("checkbox", { name: "optimizer.momentum" }).check();
  await page.keyboard.press("Escape");
  await page.getByRole("columnheader", { name: "optimizer.momentum" }).waitFor();
  await page.reload();
  await page.getByRole("columnheader", { name: "optimizer.momentum" }).waitFor();
  await page.getByRole("cell", { name: "0.9", exact: true }).waitFor();
}));

test("a run page shows the values of its log", () => onPage(`run/${ids.first}`, async (page) => {
  const truth = show(ids.first);
  const accuracy = truth.metrics["eval/accuracy"].last;
  assert.equal(await page.locator(".figures li").filter({ hasText: "eval/accuracy" }).locator(".figure-value").getAttribute("title"), String(accuracy));
  await drawn(page, "eval/accuracy").waitFor();
  await drawn(page, "train/loss").waitFor();
  // The keyboard moves the pointer to the last step.
  const chart = drawn(page, "train/loss");
  await chart.locator("canvas").waitFor(); // the key handlers are attached with it
  await chart.focus();
  await page.keyboard.press("ArrowLeft");
  const tip = chart.locator(".tip");
  await tip.getByText(`step ${truth.metrics["train/loss"].step}`).waitFor();
  const last = Number((await tip.locator(".tip-value").first().textContent()).replace("−", "-"));
  assert.ok(Math.abs(last - truth.metrics["train/loss"].last) < 1e-3 * Math.abs(last), `${last} is not ${truth.metrics["train/loss"].last}`);
}));

test("zooming one chart zooms the others, and the URL contains the zoom", () => onPage(`run/${ids.first}`, async (page) => {
  await drawn(page, "train/loss").locator(".u-over").waitFor();
  const box = await drawn(page, "train/loss").boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.7, box.y + box.height / 2, { steps: 5 });
  await page.mouse.up();
  const reset = page.getByTitle("Reset zoom").filter({ hasText: "step" });
  await reset.waitFor();
  assert.match(page.url(), /zoom=step/);
  await page.reload();
  await reset.click();
  await waitFor(() => !/zoom=/.test(page.url()), "the zoom to be reset");
}));

test("axes, smoothing, log scale, pins and search", () => onPage(`run/${ids.first}`, async (page) => {
  await drawn(page, "train/loss").waitFor();
  await page.getByRole("group", { name: "Horizontal axis" }).getByRole("button", { name: "time" }).click();
  await drawn(page, "train/loss").waitFor();
  await page.getByLabel("Smoothing").fill("0.8");
  await page.getByRole("button", { name: "Log", exact: true }).click();
  await page.getByRole("button", { name: "Pin train/loss" }).click();
  await page.getByRole("heading", { name: "Pinned" }).waitFor();
  await page.getByLabel("Search metrics").fill("accuracy");
  await waitFor(async () => (await page.locator(".chart-card").count()) === (await page.locator('.chart-card[aria-label*="accuracy"]').count()), "only matching charts");
  await page.getByLabel("Search metrics").fill("no such metric");
  await page.getByText("No matching metrics").waitFor();
}));

test("the slowest of sixteen ranks is named, and a click overlays it on the band", () => onPage("run/ranks-1/ranks", async (page) => {
  await page.getByText("Rank 1 is the slowest").waitFor();
  await page.getByText("Without rank 1, a step would take 12 ms instead of 16 ms.").waitFor();
  assert.equal(await page.locator("table.plain tbody tr").count(), 16);
  const heat = page.getByRole("group", { name: /rank\/step_time_s of 16 ranks/ });
  const box = await heat.boundingBox();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height * (1.5 / 16));
  await waitFor(() => /ranks=1(&|$)/.test(page.url()), "rank 1 in the URL");
  await page.getByRole("group", { name: /rank\/step_time_s.*median of 16 ranks.*rank 1/ }).waitFor();
}));

test("arrow keys move through the cells of the heatmap of ranks, and Enter overlays the rank on the band", () => onPage("run/ranks-1/ranks", async (page) => {
  const heat = page.getByRole("group", { name: /rank\/step_time_s of 16 ranks/ });
  await page.getByRole("button", { name: "More options for the heatmap of rank/step_time_s" }).focus();
  await page.keyboard.press("Tab");
  assert.ok(await heat.evaluate((element) => document.activeElement === element && getComputedStyle(element).outlineStyle === "solid"));
  const readout = page.locator(".heat-readout[aria-live]");
  const isAt = (text) => readout.getByText(text).waitFor();
  await page.keyboard.press("ArrowDown");
  await isAt(/^rank 0, steps 0 to 0: [\d.]+ ms$/);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  const { sources, mean, edges, columns } = await (await fetch(`${address}/api/heatmap?run=ranks-1&metric=rank/step_time_s&columns=600`)).json();
  const row = sources.indexOf("rank-1");
  await isAt(new RegExp(`^rank 1, steps ${edges[1]} to ${edges[2] - 1}: ${Number((1000 * mean[row][1]).toPrecision(4))} ms$`));
  const [mark, box] = [await page.locator(".heat-mark").boundingBox(), await heat.boundingBox()];
  assert.ok(Math.abs(mark.y - box.y - box.height / 16) < 2 && Math.abs(mark.x - box.x - box.width / columns) < 2, JSON.stringify([mark, box]));
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  await isAt("Click a rank to overlay its curve on the band");
  for (const key of ["ArrowUp", "ArrowDown", "End", "Enter"]) await page.keyboard.press(key);
  await page.getByRole("group", { name: /rank\/step_time_s.*median of 16 ranks.*rank 1/ }).waitFor();
  assert.match(page.url(), /ranks=1(&|$)/);
}));

test("the ends of a band are reached with up and down, and Enter overlays the rank", () => onPage("run/ranks-1/charts?m=step_time", async (page) => {
  const chart = page.getByRole("group", { name: /rank\/step_time_s.*median of 16 ranks/ });
  await chart.locator("canvas").waitFor(); // the key handlers are attached with it
  await chart.focus();
  await page.keyboard.press("ArrowLeft");
  const said = chart.locator("p[aria-live]");
  await said.getByText(/^median of 16 ranks, step \d+: /).waitFor();
  await page.keyboard.press("ArrowUp");
  await said.getByText(/^max rank 1, step \d+: /).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("group", { name: /rank\/step_time_s.*median of 16 ranks.*rank 1: / }).waitFor();
}));

test("a click at the edge of a band overlays the rank with the extreme", () => onPage("run/ranks-1/charts?m=step_time", async (page) => {
  const chart = page.getByRole("group", { name: /rank\/step_time_s.*median of 16 ranks/ });
  const box = await chart.locator(".u-over").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height * 0.2);
  await chart.locator(".tip").getByText("max · rank 1", { exact: true }).waitFor();
  await page.mouse.click(box.x + box.width / 2, box.y + box.height * 0.2);
  await page.getByRole("group", { name: /rank\/step_time_s.*median of 16 ranks.*rank 1: / }).waitFor();
  await page.getByRole("button", { name: "Each rank" }).click();
  await page.getByRole("group", { name: /rank\/step_time_s.*rank 0.*rank 1.*rank 2/ }).waitFor();
}));

test("the slower of two ranks is named, and each phase of its step has a heatmap", () => onPage(`run/${ids.first}/ranks`, async (page) => {
  await page.locator("[data-verdict]").filter({ hasText: /Rank [01] is slower|All ranks take the same time/ }).waitFor();
  await page.getByLabel("Metric", { exact: true }).selectOption("rank/forward_s");
  await page.getByRole("group", { name: /rank\/forward_s of 2 ranks/ }).waitFor();
}));

test("the slower rank is known even if only the main rank logs", async () => {
  const id = train("quiet", "tracking.ranks=main", "train.epochs=1");
  await onPage(`run/${id}/ranks`, async (page) => {
    await page.locator("[data-verdict]").filter({ hasText: /Rank [01] was slower in \d+ of 25 measurements/ }).waitFor();
    await page.getByText("Only 1 of 2 ranks logged metrics").waitFor();
  });
});

test("the charts of a group of 300 runs are bands over all of them", () => onPage(`?q=${encodeURIComponent("name ~ short")}&by=state`, async (page) => {
  await page.getByRole("link", { name: "Group charts" }).click();
  await page.getByRole("status").filter({ hasText: "300 runs" }).waitFor();
  await page.getByRole("group", { name: /eval\/accuracy.*median of 300 curves/ }).waitFor();
}));

test("the configuration marks defaults", () => onPage(`run/${ids.first}/config`, async (page) => {
  await page.getByLabel("Search the configuration").fill("optimizer");
  await page.getByText("momentum", { exact: true }).waitFor();
  await page.getByText("default", { exact: true }).first().waitFor();
}));

test("search in the console of a rank", () => onPage(`run/${ids.first}/console`, async (page) => {
  await page.getByRole("combobox", { name: "Output" }).waitFor();
  await page.getByLabel("Search the console").fill("zzz-not-there");
  await page.getByText("0 lines").waitFor();
}));

test("artifacts, checkpoints and files", () => onPage(`run/${ids.first}/artifacts`, async (page) => {
  await page.getByRole("heading", { name: /first-model/ }).waitFor();
  await page.getByText("latest").first().waitFor();
  await page.getByRole("button", { name: /Files of first-model/ }).first().click();
  await page.getByText("model.safetensors").first().waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "config.yaml" }).click()]);
  assert.match(readFileSync(await download.path(), "utf8"), /optimizer/);
}));

test("the modules of a model with their memory and the operations of a step", () => onPage(`run/${ids.second}/media`, async (page) => {
  const table = page.getByRole("region", { name: "Table model/modules" });
  const rowOf = async (name) => {
    const row = table.getByRole("row", { name: new RegExp(`^${name.replace(/[().]/g, "\\$&")} `) });
    await row.waitFor();
    return (await row.getByRole("cell").allTextContents()).slice(1);
  };
  // Of this rank, half of the batch: 24 x 2 operations per weight forward, and per weight backward; no gradient of the images.
  const [first, second] = [784 * 32, 32 * 10];
  const flops = (24 * 2 * (2 * first + 3 * second)).toLocaleString("en-US");
  assert.deepEqual(await rowOf("(the model)"), ["Mlp", "25,450", "25,450", "99.4 KiB", "99.4 KiB", "–", flops]);
  assert.deepEqual(await rowOf("layers.2"), ["Linear", "330", "330", "1.3 KiB", "1.3 KiB", "–", "–"]);
}));

test("images, histograms and tables; names that contain HTML are shown as text", () => onPage("run/gallery-1/media", async (page) => {
  await page.getByRole("img", { name: /onerror/ }).first().waitFor();
  await page.getByRole("group", { name: /^Heat map of weights\/fc1 over 11 steps\. Step 0: median -?[\d.e−-]+, middle 80 % from / }).waitFor();
  await page.getByRole("region", { name: "Confusion matrix" }).getByText("93").waitFor();
  await page.getByRole("heading", { name: /^eval\/precision_recall/ }).scrollIntoViewIfNeeded(); // charts are drawn near the viewport
  await drawn(page, "eval/precision_recall").waitFor();
  await page.getByRole("region", { name: "Table" }).getByText("<img src=x").waitFor();
  for (const part of ["charts", "config", "artifacts", "alerts", "ranks", "console"]) {
    await showView(page, `run/gallery-1/${part}`);
    await page.getByRole("heading", { level: 1, name: /gallery <img/ }).waitFor();
  }
  await showView(page, `?q=${encodeURIComponent("name ~ gallery")}`);
  await page.getByRole("link", { name: /gallery <img/ }).waitFor();
}));

/** The histograms of weights/fc1 in the API, and the text for the bin that contains a value. */
async function weights() {
  const { items } = await (await fetch(`${address}/api/runs/gallery-1/histograms?name=${encodeURIComponent("weights/fc1")}`)).json();
  const text = ({ step, edges, counts }, value) => {
    const bin = edges.findLastIndex((edge) => edge <= value);
    const total = counts.reduce((a, b) => a + b);
    return [`step ${step}`, `${counts[bin].toLocaleString("en-US")} of ${total.toLocaleString("en-US")} values`];
  };
  return { items, text };
}

test("histograms over time: the pointer and the keyboard read the logged counts, as heat map and as ridgelines", () => onPage("run/gallery-1/media", async (page) => {
  const { items, text } = await weights();
  const heat = page.getByRole("group", { name: /^Heat map of weights\/fc1 / });
  const tip = (plot) => plot.locator(".tip");
  await page.locator(".heat-scale").filter({ hasText: /^0 %≥ [\d.]+ %$/ }).first().waitFor();
  const box = await heat.locator("canvas").boundingBox();
  // The middle of the fourth of eleven steps, and of a bin.
  await page.mouse.move(box.x + (box.width * 3.5) / 11, box.y + box.height * 0.35);
  const [low, high] = [items[0].edges[0], items[0].edges.at(-1)];
  for (const part of text(items[3], high - (high - low) * 0.35)) await tip(heat).getByText(part).waitFor();
  await page.mouse.click(box.x + (box.width * 3.5) / 11, box.y + box.height * 0.35);
  await page.getByRole("img", { name: "Histogram at step 60", exact: true }).waitFor();
  await page.getByRole("button", { name: "Ridgelines" }).click();
  const ridges = page.getByRole("group", { name: /^Ridgelines of weights\/fc1 over 11 steps/ });
  await page.reload();
  await ridges.locator("path").nth(10).waitFor();
  assert.match(page.url(), /hist=ridges/, "the URL contains it");
  await ridges.focus();
  await page.keyboard.press("Home");
  await tip(ridges).getByText("step 0", { exact: true }).waitFor();
  await page.keyboard.press("ArrowRight");
  await tip(ridges).getByText("step 20", { exact: true }).waitFor();
  await page.getByRole("img", { name: "Histogram at step 20", exact: true }).waitFor();
  const before = await tip(ridges).textContent();
  for (let i = 0; i < 12; ++i) await page.keyboard.press("ArrowUp");
  await waitFor(async () => (await tip(ridges).textContent()) !== before, "another value");
  const read = async (part) => parseFloat((await tip(ridges).locator(part).textContent()).replace("−", "-").replaceAll(",", ""));
  const [from, count] = [await read("div"), await read("strong")];
  const bin = items[1].edges.findIndex((edge) => Math.abs(edge - from) < 1e-3);
  assert.equal(count, items[1].counts[bin], `at ${from}`);
  assert.ok((await colors(page, "Save weights/fc1 as PNG")) > 20);
}));

/** Rows of a table of the gallery. */
async function tableRows(name) {
  const { columns, rows } = await (await fetch(`${address}/api/runs/gallery-1/tables?name=${encodeURIComponent(name)}&rows=1000`)).json();
  return rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, row[i]])));
}

/** The probability that a positive sample has a higher score than a negative one; equal scores count half. */
function pairwiseArea(samples) {
  const [yes, no] = [samples.filter(([positive]) => positive), samples.filter(([positive]) => !positive)];
  const wins = yes.flatMap(([, a]) => no.map(([, b]) => (a > b ? 1 : a === b ? 0.5 : 0)));
  return wins.reduce((a, b) => a + b) / wins.length;
}

test("ROC and precision-recall curves of labels and scores have the areas of a direct formula, and a matrix at a threshold", () => onPage("run/gallery-1/media", async (page) => {
  const rows = await tableRows("eval/scores");
  const card = page.locator("section.card").filter({ has: page.getByRole("heading", { name: /^eval\/scores/ }) });
  const area = pairwiseArea(rows.map(({ label, score }) => [label, score]));
  await card.getByText(`Area under the curve ${area.toFixed(4)}, 100 of 300 samples positive.`).waitFor();
  await card.scrollIntoViewIfNeeded();
  await drawn(page, "eval/scores").waitFor();
  await page.getByRole("button", { name: "More options for eval/scores" }).click();
  const curve = (await lines(page, "Save as CSV")).slice(1).map((line) => line.split(",").slice(1).map(Number));
  assert.deepEqual([curve[0], curve.at(-1)], [[0, 0], [1, 1]]);
  const drawnArea = curve.slice(1).reduce((sum, [x, y], i) => sum + ((x - curve[i][0]) * (y + curve[i][1])) / 2, 0);
  assert.ok(Math.abs(drawnArea - area) < 1e-9, "the drawn curve has the area, and nothing else is in the file");
  await card.getByRole("button", { name: "Confusion" }).click();
  const at = 0.5;
  const counts = [false, true].flatMap((actual) => [false, true].map((predicted) => rows.filter(({ label, score }) => label === actual && score >= at === predicted).length));
  await card.getByRole("cell", { name: String(counts[0]), exact: true }).waitFor();
  assert.deepEqual(await card.locator(".confusion tbody td:not(.num)").allTextContents(), counts.map((count) => (count ? String(count) : "·")));
  await card.getByRole("status").getByText((counts[3] / (counts[3] + counts[1])).toFixed(4), { exact: true }).waitFor();
  await card.getByRole("slider", { name: "Threshold of eval/scores" }).fill("0.98");
  await card.getByText(`recall ${(rows.filter(({ label, score }) => label && score >= 0.98).length / 100).toFixed(4)}`).waitFor();
  await card.getByRole("button", { name: "Table", exact: true }).click();
  await card.getByRole("columnheader", { name: "score" }).waitFor();
  assert.match(page.url(), /scores=table/, "the URL contains it");
  await card.getByRole("button", { name: "Precision-recall" }).click();
  await drawn(page, "eval/scores").waitFor();
  const classes = await tableRows("eval/class_scores");
  const areas = page.locator("section.card").filter({ has: page.getByRole("heading", { name: /^eval\/class_scores/ }) });
  await areas.getByRole("button", { name: "ROC" }).click();
  for (const name of ["cat", "dog", classes[2].label]) {
    const expected = pairwiseArea(classes.map((row) => [row.label === name, row[`score/${name}`]]));
    const cells = areas.getByRole("row").filter({ has: page.getByRole("rowheader", { name, exact: true }) }).getByRole("cell");
    assert.deepEqual(await cells.allTextContents(), [expected.toFixed(4), "30 of 90"], name);
  }
}));

test("comparison: curves, differences in configuration and git state, results", () => onPage(`compare?runs=${ids.first},${ids.second}`, async (page) => {
  await page.getByRole("group", { name: /^Chart of train\/loss\. first.*second/ }).waitFor();
  await page.getByRole("button", { name: "Median & range" }).click();
  await page.getByRole("group", { name: /^Chart of train\/loss\. median of 4 curves/ }).waitFor();
  await page.getByRole("link", { name: /Differences/ }).click();
  await page.getByRole("rowheader", { name: "optimizer.lr" }).waitFor();
  await page.getByRole("cell", { name: "0.02", exact: true }).waitFor();
  const cells = (key) => page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: key, exact: true }) }).getByRole("cell").allTextContents();
  assert.deepEqual(await cells("git.commit"), [commits.first, commits.second]);
  assert.deepEqual(await cells("git.branch"), ["main", "wider"]);
  assert.deepEqual(await cells("host"), [], "equal values are hidden");
  await page.getByRole("link", { name: "Results" }).click();
  await page.getByRole("rowheader", { name: "eval/accuracy" }).waitFor();
}));

test("runs selected in the table can be compared", () => onPage(`?q=${encodeURIComponent("name = first or name = second")}`, async (page) => {
  await page.getByLabel("Select first").click();
  await page.getByLabel("Select second").click();
  await page.getByRole("link", { name: "Compare" }).click();
  await page.getByRole("heading", { name: "2 runs" }).waitFor();
}));

test("a chart is saved as PNG and as CSV with its values", () => onPage(`run/${ids.first}`, async (page) => {
  await drawn(page, "eval/loss").waitFor();
  const more = page.getByRole("button", { name: "More options for eval/loss" });
  await more.click();
  const [png] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as PNG" }).click()]);
  assert.equal(readFileSync(await png.path()).subarray(1, 4).toString(), "PNG");
  await more.click();
  const [csv] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as CSV" }).click()]);
  const rows = readFileSync(await csv.path(), "utf8").trim().split("\n");
  assert.equal(rows.length - 1, exported(ids.first).filter((row) => row.metric === "eval/loss").length);
}));

/** The content that a click on the button saves. */
async function saved(page, name) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name, exact: true }).click()]);
  return readFileSync(await file.path());
}

/** Saves an image and counts its colors. */
async function colors(page, name) {
  const png = (await saved(page, name)).toString("base64");
  return page.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
    const ctx = canvas.getContext("2d");
    ctx.drawImage(image, 0, 0);
    return new Set(new Uint32Array(ctx.getImageData(0, 0, image.width, image.height).data.buffer)).size;
  }, png);
}

const lines = async (page, name) => (await saved(page, name)).toString().trim().split("\n");

test("PNG and CSV of a heatmap and of histograms", () => onPage("run/ranks-1/ranks", async (page) => {
  const more = page.getByRole("button", { name: "More options for the heatmap of rank/step_time_s" });
  await more.click();
  assert.ok((await colors(page, "Save as PNG")) > 20);
  await more.click();
  const rows = await lines(page, "Save as CSV");
  assert.equal(rows.length, 1 + 16 * 300);
  const logged = exported("ranks-1").filter((row) => row.metric === "rank/step_time_s" && row.rank === 1);
  const own = rows.filter((row) => row.startsWith("rank-1,")).map((row) => Number(row.split(",")[3]));
  assert.deepEqual(own, logged.map((row) => row.value), "with one step per column, the heatmap has the logged values");
  await showView(page, "run/gallery-1/media");
  assert.ok((await colors(page, "Save weights/fc1 as PNG")) > 20);
  assert.equal((await lines(page, "Save weights/fc1 as CSV")).length, 1 + 11 * 30);
}));

test("PNG and CSV of tables, confusion matrices and precision-recall curves", () => onPage("run/gallery-1/media", async (page) => {
  const script = '"<img src=x onerror=""window.pwned=1""><script>window.pwned=1</script>"';
  await page.getByRole("region", { name: "Confusion matrix" }).waitFor();
  assert.ok((await colors(page, "Save eval/confusion as PNG")) > 20);
  const counts = await lines(page, "Save eval/confusion as CSV");
  assert.deepEqual([counts.length, counts[0], counts[1], counts[16]], [17, "actual,predicted,count", "0,0,90", `${script},${script},93`]);
  assert.ok((await colors(page, "Save eval/worst as PNG")) > 10);
  assert.deepEqual(await lines(page, "Save eval/worst as CSV"), ["sample,text", `200,${script}`, "201,plain"]);
  await page.getByRole("heading", { name: /^eval\/precision_recall/ }).scrollIntoViewIfNeeded();
  await drawn(page, "eval/precision_recall").waitFor();
  const more = page.getByRole("button", { name: "More options for eval/precision_recall" });
  await more.click();
  assert.ok((await colors(page, "Save as PNG")) > 20);
  await more.click();
  const curve = await lines(page, "Save as CSV");
  assert.deepEqual([curve.length, curve[0], curve[51]], [103, "class,recall,precision", "cat,1,0.4"]);
}));

test("a confusion matrix is drawn from all rows of its table", () => onPage("run/charts-1/media", async (page) => {
  const matrix = page.getByRole("region", { name: "Confusion matrix" });
  await matrix.getByText("109", { exact: true }).waitFor();
  assert.equal(await matrix.getByRole("rowheader").count(), 20);
  assert.equal((await lines(page, "Save eval/confusion as CSV")).length, 401);
}));

const tableCard = (page, name) => page.locator("section.card").filter({ has: page.getByRole("heading", { name: new RegExp(`^${name}`) }) });

test("a table whose later labels are names: the mistake, and pages of its rows", () => onPage("run/charts-1/media", async (page) => {
  const card = tableCard(page, "eval/sorted_scores");
  await card.getByText('The column label has the value "cat"').waitFor();
  assert.equal(await card.getByRole("row").count(), 0);
  await card.getByRole("button", { name: "Table", exact: true }).click();
  await card.getByText("1 – 200 of 900").waitFor();
  for (const rows of ["201 – 400", "401 – 600"]) {
    await card.getByRole("button", { name: "Next" }).click();
    await card.getByText(`${rows} of 900`).waitFor();
    assert.equal(await card.getByRole("row").count(), 201);
  }
  await card.getByRole("button", { name: "ROC" }).click();
  await card.getByText('The column label has the value "cat"').waitFor();
}));

test("labels without scores and classes without samples are named; one class against the rest has both rows", () => onPage("run/charts-1/media", async (page) => {
  const missing = tableCard(page, "eval/missing_scores");
  await missing.getByText('No column score/CLASS has the name of the label "fox". These samples are in no class.').waitFor();
  await missing.getByRole("rowheader", { name: "mean of 2 of 3 classes" }).waitFor();
  const rare = tableCard(page, "eval/rare_class");
  await rare.getByRole("button", { name: "Confusion" }).click();
  await rare.getByRole("combobox", { name: "Class" }).selectOption("others");
  await rare.getByRole("rowheader", { name: "not others", exact: true }).waitFor();
  assert.deepEqual(await rare.getByRole("rowheader").allTextContents(), ["not others", "others"]);
  assert.deepEqual(await rare.locator(".confusion tbody td:not(.num)").allTextContents(), ["10", "·", "·", "·"]);
  assert.equal(await rare.getByRole("slider", { name: "Threshold of eval/rare_class" }).inputValue(), "0.5");
}));

test("a live run updates, is tagged and annotated, ends, and is deleted", async () => {
  const live = await begin("live", "train.epochs=100000", "tracking.ranks=main");
  await onPage(`run/${live.id}`, async (page) => {
    await page.getByText("running", { exact: true }).waitFor();
    await drawn(page, "train/loss").waitFor();
    const step = () => page.locator(".facts div").filter({ hasText: "Step" }).locator("dd").first().textContent().then((text) => Number(text.replaceAll(",", "")));
    await page.getByTitle("Receiving live updates").waitFor();
    const first = await step();
    await waitFor(async () => (await step()) > first, "new steps"); // bench/dashboard.py measures the latency

    await page.getByRole("button", { name: "Tag" }).click();
    await page.getByLabel("New tag").fill("seen");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("link", { name: "seen" }).waitFor();
    await page.getByRole("button", { name: "More", exact: true }).click();
    await page.getByRole("button", { name: "Add note" }).click();
    await page.getByRole("textbox", { name: "Note" }).fill("looks fine");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByText("looks fine").waitFor();

    live.process.kill("SIGTERM");
    // The agent detects the death of the trainer and records it.
    await page.locator(".run-head .state:not(.running, .lost)").waitFor();

    await agentToEnd(live.id); // the run is in use until then
    await page.getByRole("button", { name: "More", exact: true }).click();
    await page.getByRole("button", { name: "Delete" }).click();
    const deleteButton = page.getByRole("button", { name: "Delete permanently" });
    assert.ok(await deleteButton.isDisabled(), "deleting requires confirmation");
    await page.getByLabel(/to confirm/).fill("live");
    await deleteButton.click();
    await waitFor(() => !readdirSync(runs).includes(live.id), "the run to be deleted");
  });
});

test("a run that is killed and resumed from its last checkpoint shows its current state and curve at all times", async () => {
  const words = ["train.epochs=100000", "data.batch_size=600", "tracking.ranks=main", "checkpoint.every=20 steps"];
  const { id, process } = await begin("resumed", ...words);
  const losses = () => exported(id).filter((row) => row.metric === "train/loss");
  await onPage(`run/${id}`, async (page) => {
    const state = (name) => page.locator(`.run-head .state.${name}`).waitFor();
    const checkCurve = async () => {
      await page.getByRole("button", { name: "More options for train/loss" }).click();
      const rows = (await lines(page, "Save as CSV")).slice(1).map((row) => row.split(","));
      const steps = rows.map((row) => Number(row[3]));
      assert.ok(steps.every((step, i) => i === 0 || step > steps[i - 1]), "each step occurs once");
      assert.deepEqual(rows.map((row) => [Number(row[3]), Number(row[6])]), losses().map((row) => [row.step, row.value]));
    };
    await state("running");
    await waitFor(() => losses().length > 50, "some steps");
    await drawn(page, "train/loss").waitFor();
    process.kill("SIGKILL");
    await state("killed");
    await checkCurve();
    const last = losses().at(-1).step;
    const again = resume(id, ...words);
    await state("running");
    await waitFor(() => losses().at(-1).step > last + 20, "the run to resume");
    again.kill("SIGTERM");
    await waitFor(() => again.exitCode !== null, "the trainer to exit");
    await page.locator(".run-head .state:not(.running, .lost)").waitFor();
    await checkCurve();
    await page.locator(".facts div").filter({ hasText: "Step" }).getByText(losses().at(-1).step.toLocaleString("en-US"), { exact: true }).waitFor();
  });
});

test("a run is stopped in the dashboard", async () => {
  const live = await begin("stopped", "train.epochs=100000", "tracking.ranks=main");
  await onPage(`run/${live.id}`, async (page) => {
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("textbox", { name: "Reason" }).fill("seen enough");
    await page.getByRole("dialog").getByRole("button", { name: "Stop" }).click();
    await waitFor(() => live.process.exitCode !== null, "the trainer to stop");
    await page.locator(".run-head .state:not(.running)").waitFor();
  });
});

test("a report opens offline with the same content", async () => {
  const file = join(directory, "report.html");
  run(LOCKSTEP, "runs", "export", ids.first, "--html", file, "--dir", runs);
  const page = await open(`file://${file}`);
  await drawn(page, "train/loss").waitFor();
  assert.equal(await page.locator(".figures li").filter({ hasText: "eval/accuracy" }).locator(".figure-value").getAttribute("title"), String(show(ids.first).metrics["eval/accuracy"].last));
  await page.getByRole("link", { name: /Ranks/ }).click();
  await page.getByRole("group", { name: /rank\/step_time_s of 2 ranks/ }).waitFor();
  await page.getByRole("link", { name: "Console" }).click();
  await page.getByText("Only the last lines are included").waitFor();
  const printed = readFileSync(join(runs, ids.first, "logs", "attempt_0", "0", "stdout.log"), "utf8").trim().split("\n");
  await page.getByText(printed.at(-1).trim(), { exact: true }).waitFor();
  assert.deepEqual(page.consoleErrors, []);
  await page.context().close();
});

test("the dashboard can be operated with the keyboard", () => onPage("", async (page) => {
  await page.getByText(/^3\d\d runs$/).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("name = first");
  await page.getByText(/^1 of 3\d\d runs$/).waitFor();
  await page.getByRole("link", { name: "first", exact: true }).waitFor();
  page.consoleErrors.length = 0; // the browser logs the error responses to incomplete expressions
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.locator(".runs-row.at").waitFor();
  await page.keyboard.press("x");
  await page.getByText("1 selected").waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "first" }).waitFor();
  await page.keyboard.press("3");
  await page.getByLabel("Search the configuration").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await page.keyboard.press("Escape");
}));

/** Opens something, looks for violations in it, and closes it with Escape. */
async function checkOpened(page, open, dialog, prepare = async () => {}) {
  await open.click();
  const opened = page.getByRole("dialog", { name: dialog }).or(page.getByRole("group", { name: dialog, exact: true }));
  await opened.waitFor();
  await prepare(opened);
  assert.deepEqual(await violations(page), [], String(dialog));
  await page.keyboard.press("Escape");
  await opened.waitFor({ state: "detached" });
  assert.ok(await open.evaluate((button) => document.activeElement === button || !button.isConnected), `the focus after ${dialog}`);
}

for (const colorScheme of ["light", "dark"]) {
  test(`axe finds no violations in opened menus and dialogs (${colorScheme})`, () => onPage(`?q=${encodeURIComponent("name = first or name = second")}`, async (page) => {
    const button = (name) => page.getByRole("button", { name, exact: true });
    await page.getByText(/^2 of 3\d\d runs$/).waitFor();
    await checkOpened(page, button("Saved views"), "Saved views", async (panel) => {
      await panel.getByLabel("Name of this view").fill(colorScheme);
      await page.keyboard.press("Enter");
      await panel.getByRole("link", { name: colorScheme }).waitFor();
    });
    await checkOpened(page, button("Columns"), "Columns", (panel) => panel.getByLabel("last of eval/loss").click());
    await checkOpened(page, button("Columns"), "Columns", (panel) => panel.getByLabel("Search columns").fill("loss"));
    await checkOpened(page, button("Keyboard shortcuts"), "Keyboard shortcuts");
    for (const name of ["first", "second"]) await page.getByLabel(`Select ${name}`).click();
    await checkOpened(page, button("Tag or delete"), "2 selected runs", (dialog) => dialog.getByLabel("Tags").fill("seen"));
    // The run appears to be running.
    await page.route(`**/api/runs/${ids.second}`, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), state: "running", planned: null } });
    });
    await showView(page, `run/${ids.second}`);
    await checkOpened(page, button("Stop"), "Stop second?");
    await showView(page, `run/${ids.first}`);
    const more = button("More");
    await checkOpened(page, more, "More");
    await checkOpened(page, button("Tag"), "Tags", async (dialog) => {
      await dialog.getByLabel("New tag").fill("a b ");
      await page.keyboard.press("Enter");
    });
    for (const [entry, dialog, field] of [["Add note", "Note", "Note"], ["Delete", "Delete first?", /to confirm/]]) {
      await more.click();
      await button(entry).click();
      await page.getByRole("dialog", { name: dialog }).getByLabel(field).fill("first");
      assert.deepEqual(await violations(page), [], dialog);
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    }
    await page.setViewportSize({ width: 1000, height: 500 }); // the list is longer than the window
    await checkOpened(page, button("Keyboard shortcuts"), "Keyboard shortcuts");
  }, { colorScheme }));
}

const VIEWS = () => ["", `run/${ids.first}`, `run/${ids.first}/ranks`, `run/${ids.first}/config`, `run/${ids.first}/console`, `run/${ids.first}/artifacts`, "run/gallery-1/media", "run/gallery-1/alerts", `compare?runs=${ids.first},${ids.second}&tab=results`, "group?q=name%20~%20short", "artifacts", "alerts", "nowhere"];

for (const [name, viewport] of [["a phone", { width: 390, height: 800 }], ["a 4K screen", { width: 3840, height: 2160 }]]) {
  test(`no view is wider than ${name}`, () => onPage("", async (page) => {
    for (const view of VIEWS()) {
      await showView(page, view);
      const [wide, width] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(wide <= width, `${view} is ${wide} pixels wide`);
    }
  }, { viewport }));
}
