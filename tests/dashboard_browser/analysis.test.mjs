// The analysis of many runs, expressions, two runs on one page and saved views, through user interactions.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { brushThrough, drawn, onCopy, queryOf, showView, violations, visit } from "./browser.mjs";
import { directory, end, python, record, runs, serve, sweep, waitFor } from "./world.mjs";


const STUDY = encodeURIComponent("group = study");
const ANALYSIS = `analyze?q=${STUDY}&target=metric.eval/loss`;
const DIFF = "diff --git a/train.py b/train.py\nindex 1..2 100644\n--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n same\n-lr = 0.1\n+lr = 0.2 # \u202e<script>window.pwned=1</script>\n";
let address;

before(async () => {
  record("study", "200");
  record("sweep", "12", "60");
  record("curves", "2", "50");
  for (const [id, diff] of [["sweep-00", DIFF], ["sweep-01", DIFF], ["sweep-02", ""]]) {
    const job = JSON.parse(readFileSync(join(runs, id, "run.json"), "utf8"));
    writeFileSync(join(runs, id, "run.json"), JSON.stringify({ ...job, git: { commit: "a".repeat(40), branch: "main" } }));
    writeFileSync(join(runs, id, "code.json"), JSON.stringify({ commit: "a".repeat(40), branch: "main", diff, sha256: (diff ? "1f" : "2e").repeat(32) }));
    writeFileSync(join(runs, id, "software.json"), JSON.stringify({ libtorch: "2.9.0", packages: { numpy: "2.1.0", torch: "2.9.0" } }));
  }
  address = await serve();
  await waitFor(async () => (await (await fetch(`${address}/api/runs`)).json()).matching === 214, "all runs");
});

after(end);

const onPage = (hash, work, options) => visit(`${address}/#/${hash}`, work, options);
const matching = async (filter) => (await (await fetch(`${address}/api/runs?limit=1&filter=${encodeURIComponent(filter)}`)).json()).matching;
const isDrawn = (page, runs) => page.locator(`.parallel[data-drawn="${runs}"]`).waitFor();
const scatterOf = (page) => page.getByRole("region", { name: "Scatter" }).locator(".scatter");

test("from the table to what mattered, in one click: the two planted hyperparameters, and that they depend on each other", () => onPage(`?q=${STUDY}`, async (page) => {
  await page.getByRole("link", { name: "Analyze" }).click();
  await page.getByLabel("Result", { exact: true }).selectOption("eval/loss");
  const rows = page.getByRole("region", { name: "Importance of hyperparameters" }).locator("tbody tr");
  await page.getByRole("heading", { name: "What mattered for eval/loss" }).waitFor();
  await rows.nth(1).waitFor();
  const names = await rows.locator("th").allTextContents();
  assert.deepEqual(names.slice(0, 2).sort(), ["model.hidden", "optimizer.lr"]);
  assert.match(await rows.nth(names.indexOf("optimizer.lr")).textContent(), /best at 0\.0/);
  await page.getByText("Rests on 198 runs.").waitFor(); // two of 200 have no result
  await page.getByText(/hyperparameters? not distinguishable from noise/).waitFor();
  await page.getByRole("button", { name: /^(optimizer\.lr × model\.hidden|model\.hidden × optimizer\.lr)/ }).click();
  await page.getByRole("group", { name: /^Scatter of (model\.hidden against optimizer\.lr|optimizer\.lr against model\.hidden) of 200 runs, colored by eval\/loss$/ }).waitFor();
}));

test("a sweep: its progress, the best trial, and why trials were pruned or failed", () => onPage("sweeps", async (page) => {
  await page.getByRole("heading", { name: "No sweeps yet" }).waitFor();
  sweep("rates");
  await page.reload();
  const row = page.getByRole("region", { name: "Table of sweeps" }).locator("tbody tr");
  await row.getByText("2 finished, 1 pruned, 1 failed, 1 open").waitFor();
  assert.match(await row.textContent(), /^ratesstopped.*eval\/loss 0\.25sobol/);
  assert.equal(await row.getByRole("progressbar").getAttribute("aria-valuetext"), "4 of 8 trials");
  await row.getByRole("link", { name: "rates" }).click();
  await page.getByRole("region", { name: "Best" }).getByText("trial 1 · eval/loss 0.25").waitFor();
  await page.getByText("search: sobol · pruning: median · until 8 trials · 1 rank per trial").waitFor();
  await page.getByRole("region", { name: "Order of start" }).getByText(/It improved 1 time; the last time with trial 1, 0\.25\./).waitFor();
  const trials = page.getByRole("region", { name: "Table of trials" }).locator("tbody tr");
  const shown = async () => (await trials.locator("th").allTextContents()).map((text) => text.trim());
  assert.deepEqual(await shown(), ["trial 1 best", "trial 0", "trial 2", "trial 3", "trial 4"]);
  assert.match(await trials.nth(2).textContent(), /pruned0\.9.*eval\/loss 0\.9/);
  assert.match(await trials.nth(3).textContent(), /failed.*out of memory$/);
  await page.getByRole("button", { name: "Trial", exact: true }).click();
  await waitFor(async () => (await shown())[0] === "trial 0", "the trials to be in their order");
  await page.getByRole("button", { name: "failed 1" }).click();
  await waitFor(async () => (await shown()).length === 1, "the failed trial alone");
  await onCopy(page, { state: "failed", sort: "number" }, (copy) => copy.getByText("out of memory").waitFor());
  assert.deepEqual(await violations(page), []);
  assert.match(await page.getByRole("link", { name: "Analyze" }).getAttribute("href"), /target=metric\.eval%2Floss&better=lower/);
  await showView(page, "sweeps/nothing");
  await page.getByText("no such sweep: 'nothing'").waitFor();
  page.consoleErrors = page.consoleErrors.filter((text) => !/status of 404/.test(text));
}));

const LR_WIDTH = `${ANALYSIS}&sx=config.optimizer.lr&sy=config.model.hidden&sc=metric.eval/loss`;

test("a heat map of two hyperparameters: cells have the mean of their runs, and the text says on how many runs it rests", () => onPage(LR_WIDTH, async (page) => {
  await page.getByRole("group", { name: "Scatter as" }).getByRole("button", { name: "Heat map" }).click();
  await scatterOf(page).and(page.locator('[data-surface="cells"]')).waitFor();
  assert.equal(queryOf(page).get("surface"), "cells");
  const text = await page.getByText(/^Binned: the mean eval\/loss in 7 × 5 cells; .*Rests on 198 runs \(2 without all three values\)\. Lowest mean/).textContent();
  // Logarithmic, because the values of the space are: seven equal parts of the logarithm of the learning rate, one row per width.
  const { columns } = await (await fetch(`${address}/api/analysis?filter=${STUDY}`)).json();
  const [lr, width, loss] = ["config.optimizer.lr", "config.model.hidden", "metric.eval/loss"].map((field) => columns.find((column) => column.field === field).values);
  const [low, high] = [Math.min(...lr), Math.max(...lr)].map(Math.log);
  const runs = lr.flatMap((rate, i) => (typeof loss[i] === "number" ? [{ cell: `${Math.max(0, Math.min(6, Math.floor((((Math.log(rate) - low) / (high - low) + 0.045) / 1.09) * 7)))} ${width[i]}`, loss: loss[i] }] : []));
  const means = [...new Set(runs.map(({ cell }) => cell))].map((cell) => {
    const own = runs.filter((run) => run.cell === cell);
    return { width: cell.split(" ")[1], count: own.length, mean: own.reduce((sum, run) => sum + run.loss, 0) / own.length };
  });
  const best = means.reduce((least, now) => (now.mean < least.mean ? now : least));
  const [, mean, count, row] = /Lowest mean ([\d.]+) \(mean of (\d+) runs?\) at optimizer\.lr [\d.]+ to [\d.]+ and model\.hidden (\d+)\.$/.exec(text);
  assert.ok(Math.abs(Number(mean) - best.mean) < 1e-3, `${mean} ${best.mean}`);
  assert.deepEqual([Number(count), row], [best.count, best.width]);
}));

test("contours of two hyperparameters; from a scatter of the result, the two most important ones are chosen", () => onPage(ANALYSIS, async (page) => {
  await page.getByRole("group", { name: "Scatter as" }).getByRole("button", { name: "Contours" }).click();
  await scatterOf(page).and(page.locator('[data-surface="smooth"]')).waitFor();
  assert.deepEqual([queryOf(page).get("sx"), queryOf(page).get("sy")].sort(), ["config.model.hidden", "config.optimizer.lr"]);
  assert.equal(queryOf(page).get("sc"), "metric.eval/loss");
  await page.getByText(/^Interpolated: the mean eval\/loss, weighted with a Gaussian kernel of \d+ % of each axis; .*Rests on 198 runs/).waitFor();
  // Between the runs of two widths, on either axis.
  const canvas = scatterOf(page).locator("canvas");
  const { width, height } = await canvas.boundingBox();
  await canvas.hover({ position: { x: 62 + 0.2 * (width - 76), y: height - 34 - 0.2 * (height - 58) } });
  await scatterOf(page).locator(".tip").getByText("interpolated").waitFor();
  // Contours need numbers on both axes.
  await page.getByLabel("y", { exact: true }).selectOption("config.optimizer.name");
  assert.equal(await page.getByRole("button", { name: "Contours" }).isDisabled(), true);
  await scatterOf(page).and(page.locator(":not([data-surface])")).waitFor();
  await page.getByRole("button", { name: "Heat map" }).click();
  await page.getByText(/^Binned: .* cells/).waitFor();
}));

test("parallel coordinates with axes of the URL are drawn before the importance is known", () => onPage("alerts", async (page) => {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route(/\/api\/importance/, async (route) => {
    await held;
    await route.continue();
  });
  await page.evaluate((hash) => (location.hash = hash), `#/${ANALYSIS}&axes=config.model.hidden,config.optimizer.lr`);
  await isDrawn(page, 200);
  assert.equal(await page.locator(".importance, .scatter").count(), 0);
  release();
  await page.getByRole("region", { name: "Importance of hyperparameters" }).waitFor();
  await scatterOf(page).and(page.locator("[data-drawn]")).waitFor();
}));

test("too few runs are named, with correlations instead of importance", () => onPage(`analyze?runs=${Array.from({ length: 12 }, (_, i) => `study-${String(i).padStart(4, "0")}`).join(",")}&target=metric.eval/accuracy`, async (page) => {
  await page.getByText("Too few runs: 12 runs with eval/accuracy, but 20 hyperparameters need at least 60.").waitFor();
  assert.equal(await page.getByRole("region", { name: "Importance of hyperparameters" }).count(), 0);
  assert.match(await page.locator(".constants tbody").textContent(), /optimizer\.lr[+−]0\.\d\d12/);
}));

test("brushing with the pointer and the keyboard selects the runs of the filter, and the URL contains it", () => onPage(`${ANALYSIS}&axes=config.optimizer.name,config.model.hidden,config.optimizer.lr`, async (page) => {
  await isDrawn(page, 200);
  await page.getByRole("button", { name: "Axis optimizer.lr" }).focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("from", { exact: true }).fill("0.001");
  await page.keyboard.press("Tab");
  await page.getByLabel("to", { exact: true }).fill("0.01");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Axis optimizer.name" }).click();
  await page.getByRole("checkbox", { name: "sgd" }).uncheck();
  await page.keyboard.press("Escape");
  const count = await matching('group = study and config.optimizer.lr >= 0.001 and config.optimizer.lr <= 0.01 and config.optimizer.name != sgd');
  assert.ok(count > 10 && count < 150, String(count));
  await page.getByText(`${count} of 200 runs`).waitFor();
  await page.reload();
  await page.getByText(`${count} of 200 runs`).waitFor();
  await page.getByRole("link", { name: "Show in table" }).click();
  await page.getByText(`${count} of 214 runs`).waitFor();
  await page.goBack();
  await isDrawn(page, 200);
  await brushThrough(page, 10);
  await waitFor(() => "metric.eval/loss" in JSON.parse(queryOf(page).get("brush")), "the brush of the result in the URL");
  await page.getByRole("button", { name: "Clear", exact: true }).click();
  await page.getByText("All runs", { exact: true }).waitFor();
}));

const hasRing = (locator) => locator.evaluate((element) => document.activeElement === element && getComputedStyle(element).outlineStyle === "solid");

/** The study as rows {id, name, lr, loss}, those without a loss left out. */
async function studied() {
  const { ids, names, columns } = await (await fetch(`${address}/api/analysis?filter=${STUDY}&column=config.optimizer.lr&column=metric.eval/loss`)).json();
  const [lr, loss] = columns.map(({ values }) => values);
  return ids.map((id, i) => ({ id, name: names[i], lr: lr[i], loss: loss[i] })).filter((run) => typeof run.loss === "number");
}

test("the points of a scatter plot are one stop of Tab, and arrow keys go to the next point to a side", () => onPage(`${ANALYSIS}&sx=config.optimizer.lr&sy=metric.eval/loss&sc=config.model.hidden`, async (page) => {
  const scatter = scatterOf(page);
  await scatter.and(page.locator("[data-drawn]")).waitFor();
  await page.getByLabel("color", { exact: true }).focus();
  await page.keyboard.press("Tab");
  assert.ok(await hasRing(scatter));
  const byLr = (await studied()).sort((a, b) => a.lr - b.lr);
  const byLoss = [...byLr].sort((a, b) => a.loss - b.loss);
  const tip = scatter.locator(".tip[aria-live]");
  const isAt = async ({ name, loss }) => {
    await tip.locator("strong").getByText(name, { exact: true }).waitFor();
    assert.ok((await tip.locator(".tip-pair").filter({ hasText: "eval/loss" }).textContent()).endsWith(loss.toPrecision(4).replace(/0+$/, "")));
  };
  for (const run of byLr.slice(0, 2)) {
    await page.keyboard.press("ArrowRight");
    await isAt(run);
  }
  await page.keyboard.press("ArrowLeft");
  await isAt(byLr[0]);
  await page.keyboard.press("ArrowUp");
  const above = byLoss[byLoss.indexOf(byLr[0]) + 1];
  await isAt(above);
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  await tip.waitFor({ state: "hidden" });
  await page.keyboard.press("End");
  await isAt(byLr.at(-1));
  await page.keyboard.press("Tab");
  await tip.waitFor({ state: "hidden" });
  assert.equal(await scatter.evaluate((element) => element.contains(document.activeElement)), false);
  await scatter.focus();
  await page.keyboard.press("ArrowRight");
  await isAt(byLr[0]);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: byLr[0].name, exact: true }).waitFor();
}));

test("the lines of parallel coordinates are one stop of Tab: up and down along an axis, left and right to another", () => onPage(`${ANALYSIS}&axes=config.model.hidden,config.optimizer.lr`, async (page) => {
  await isDrawn(page, 200);
  const parallel = page.locator(".parallel");
  const tip = parallel.locator(".tip[aria-live]");
  await page.getByRole("button", { name: "Axes", exact: true }).focus();
  await page.keyboard.press("Tab");
  assert.ok(await hasRing(parallel));
  const worst = (await studied()).sort((a, b) => b.loss - a.loss);
  for (const run of worst.slice(0, 2)) {
    await page.keyboard.press("ArrowDown");
    await tip.locator("strong").getByText(run.name, { exact: true }).waitFor();
  }
  const left = async () => (await tip.boundingBox()).x;
  const before = await left();
  await page.keyboard.press("ArrowLeft");
  await waitFor(async () => (await left()) < before, "the tooltip to be at the axis before");
  // Also lines without a result have a learning rate.
  const { names, columns: [{ values: rates }] } = await (await fetch(`${address}/api/analysis?filter=${STUDY}&column=config.optimizer.lr`)).json();
  const byRate = names.map((name, i) => ({ name, rate: rates[i] })).sort((a, b) => a.rate - b.rate).map(({ name }) => name);
  await page.keyboard.press("ArrowUp");
  await tip.locator("strong").getByText(byRate[byRate.indexOf(worst[1].name) + 1], { exact: true }).waitFor();
  await page.keyboard.press("Escape");
  await tip.waitFor({ state: "hidden" });
  await page.keyboard.press("ArrowUp");
  const chosen = await tip.locator("strong").textContent();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: chosen, exact: true }).waitFor();
}));

test("arrow keys on the name of an axis select, move and resize a range, and Escape clears it", () => onPage(`${ANALYSIS}&axes=config.model.hidden,config.optimizer.lr`, async (page) => {
  await isDrawn(page, 200);
  const lr = page.getByRole("button", { name: "Axis optimizer.lr" });
  const range = () => JSON.parse(queryOf(page).get("brush") ?? "{}")["config.optimizer.lr"];
  const press = async (key) => {
    const before = queryOf(page).get("brush");
    await page.keyboard.press(key);
    await waitFor(() => queryOf(page).get("brush") !== before, `the selection after ${key}`);
    const [low, high] = range() ?? [0, Infinity];
    await page.locator(".brush-summary").getByText(range() ? `${await matching(`group = study and config.optimizer.lr >= ${low} and config.optimizer.lr <= ${high}`)} of 200 runs` : "All runs", { exact: true }).waitFor();
    return range();
  };
  await lr.focus();
  const half = await press("ArrowUp");
  await page.locator(".parallel [aria-live]").getByText(/^optimizer\.lr: 0\.\d+ to 0\.\d+$/).waitFor();
  const lower = await press("ArrowDown");
  assert.ok(lower[0] < half[0] && lower[1] < half[1]);
  const smaller = await press("Shift+ArrowDown");
  assert.ok(smaller[1] < lower[1] && smaller[0] === lower[0]);
  assert.deepEqual(await violations(page), []);
  assert.equal(await press("Escape"), undefined);
  // One stop for all names.
  const stops = page.getByRole("toolbar", { name: "Axes" }).locator("[tabindex='0']");
  assert.equal(await stops.getAttribute("aria-label"), "Axis optimizer.lr");
  await page.keyboard.press("ArrowLeft");
  assert.ok(await hasRing(page.getByRole("button", { name: "Axis model.hidden" })));
  assert.equal(await stops.getAttribute("aria-label"), "Axis model.hidden");
  await page.keyboard.press("Tab");
  assert.equal(await page.locator(".parallel").evaluate((element) => element.contains(document.activeElement)), false);
}));

test("in a chart of many runs, up and down go from line to line, and Enter opens the run", () => onPage(`group?q=${STUDY}&view=each&m=eval/loss`, async (page) => {
  const chart = page.getByRole("group", { name: /^Chart of eval\/loss\. trial \d+: from/ });
  await chart.locator("canvas").waitFor(); // the key handlers are attached with it
  await chart.focus();
  await page.keyboard.press("End");
  const said = chart.locator("p[aria-live]");
  await said.getByText(/^trial \d+, step 400: [\d.]+$/).waitFor();
  const nameOf = async () => /^(trial \d+), /.exec(await said.textContent())[1];
  const down = (await studied()).sort((a, b) => b.loss - a.loss).map(({ name }) => name);
  const start = down.indexOf(await nameOf());
  const key = start > 0 ? "ArrowUp" : "ArrowDown";
  await page.keyboard.press(key);
  const next = down[start + (start > 0 ? -1 : 1)];
  await said.getByText(new RegExp(`^${next}, step 400: `)).waitFor();
  await chart.locator(".tip-row.on").getByText(next, { exact: true }).waitFor();
  await page.keyboard.press("ArrowLeft");
  await said.getByText(new RegExp(`^${next}, step 300: `)).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Escape");
  await chart.locator(".tip").waitFor({ state: "hidden" });
  assert.equal(await said.textContent(), "");
  await page.keyboard.press("ArrowLeft");
  const opened = await nameOf();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: opened, exact: true }).waitFor();
}));

for (const colorScheme of ["light", "dark"]) {
  test(`an analysis marks the baseline, and tooltips have the difference from it (${colorScheme})`, () => onPage("alerts", async (page) => {
    const byLr = (await studied()).sort((a, b) => a.lr - b.lr);
    const [first, base] = byLr;
    await showView(page, `${ANALYSIS}&axes=config.model.hidden,config.optimizer.lr&sx=config.optimizer.lr&sy=metric.eval/loss&sc=config.model.hidden&base=${base.id}`);
    const scatter = scatterOf(page);
    await scatter.and(page.locator(`[data-drawn][aria-label$="; the baseline is ${base.name}"]`)).waitFor();
    await scatter.focus();
    await page.keyboard.press("ArrowRight");
    const tip = scatter.locator(".tip");
    const delta = tip.locator(".tip-pair").filter({ hasText: "eval/loss" }).locator(`.delta.${first.loss < base.loss ? "good" : "bad"}`);
    const share = Math.abs((100 * (first.loss - base.loss)) / base.loss);
    await delta.getByText(`${first.loss < base.loss ? "−" : "+"}${Number(share.toPrecision(3))} %`).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("ArrowRight");
    await tip.getByText(`${base.name} · baseline`, { exact: true }).waitFor();
    assert.equal(await tip.locator(".delta").count(), 0);
    // The ring is where the point is.
    const centerOf = ({ x, y, width, height }) => [x + width / 2, y + height / 2];
    const [mark, ring] = [centerOf(await scatter.locator(".scatter-mark").boundingBox()), centerOf(await scatter.locator(".baseline-mark").boundingBox())];
    assert.ok(Math.hypot(mark[0] - ring[0], mark[1] - ring[1]) < 3, `${mark} ${ring}`);
    // In the other drawings, too.
    const parallel = page.locator(".parallel");
    assert.match(await parallel.getAttribute("aria-label"), new RegExp(` The dashed line is the baseline ${base.name}\\.$`));
    const dashed = () => parallel.locator("canvas").last().evaluate((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value, i) => i % 4 === 3 && value > 200));
    assert.ok(await dashed());
    await parallel.focus();
    await page.keyboard.press("ArrowDown");
    await parallel.locator(".tip-pair").filter({ hasText: "eval/loss" }).locator(".delta").waitFor();
    await page.getByRole("region", { name: "Order of start" }).locator(".baseline-mark").waitFor();
    // Without one, there is no mark.
    await page.getByRole("button", { name: "Remove the baseline" }).click();
    await page.locator(".baseline-mark").first().waitFor({ state: "detached" });
    await page.mouse.move(0, 0); // from the lines to which the page moved
    await waitFor(async () => !(await dashed()), "the line to be removed");
  }, { colorScheme }));
}

test("results grouped by a key have the mean of the groups of the API, and the best run", () => onPage(`${ANALYSIS}&by=config.model.hidden`, async (page) => {
  const { groups } = await (await fetch(`${address}/api/groups?by=config.model.hidden&filter=${STUDY}&column=metric.eval/loss`)).json();
  const table = page.getByRole("region", { name: "eval/loss by model.hidden" });
  for (const { value, runs, values } of groups) {
    const row = table.getByRole("row").filter({ has: page.getByRole("link", { name: String(value), exact: true }) });
    await row.waitFor();
    const { mean, min } = values["metric.eval/loss"];
    const [count, shownMean, , , best] = await row.getByRole("cell").allTextContents();
    assert.equal(Number(count), runs);
    assert.ok(Math.abs(parseFloat(shownMean) - mean) < 1e-4, `${shownMean} ${mean}`);
    assert.ok(Math.abs(parseFloat(best) - min) < 1e-4, `${best} ${min}`);
  }
  await table.getByRole("button", { name: "Mean" }).click();
  const [first] = [...groups].sort((a, b) => a.values["metric.eval/loss"].mean - b.values["metric.eval/loss"].mean);
  assert.equal(await table.getByRole("rowheader").first().textContent(), String(first.value));
}));

test("expressions: an error names the mistake, a chart shows the values, and the URL contains it", () => onPage("run/sweep-03", async (page) => {
  await drawn(page, "train/loss").waitFor();
  await page.getByRole("button", { name: "Expression" }).click();
  const input = page.getByLabel("A chart of an expression of metrics");
  await input.fill("train/loss - eval/los");
  await page.keyboard.press("Enter");
  await page.getByText('unknown metric or function "eval/los"; did you mean "eval/loss"?').waitFor();
  await input.fill("eval/loss - 1.1 * train/loss");
  await page.keyboard.press("Enter");
  const chart = page.getByRole("group", { name: /^Chart of eval\/loss - 1\.1 \* train\/loss\. .*from .* to / });
  await chart.waitFor();
  // eval/loss is 1.1 times train/loss at every evaluation.
  const [, from, to] = /from (\S+) to (\S+)$/.exec(await chart.getAttribute("aria-label"));
  for (const text of [from, to]) assert.ok(Math.abs(Number(text.replace("−", "-").replace("e−", "e-"))) < 1e-9, text);
  assert.match(decodeURIComponent(page.url()), /exprs=eval\/loss/);
  await page.reload();
  await chart.waitFor();
}));

test("hidden metrics have no chart until they are shown again", () => onPage("run/sweep-03", async (page) => {
  await drawn(page, "eval/loss").waitFor();
  await page.getByRole("button", { name: "More options for eval/loss" }).click();
  await page.getByRole("button", { name: "Hide", exact: true }).click();
  await waitFor(async () => (await drawn(page, "eval/loss").count()) === 0, "the chart to be hidden");
  await page.reload();
  await page.getByText("1 hidden metric", { exact: true }).click();
  await page.getByRole("button", { name: "eval/loss", exact: true }).click();
  await drawn(page, "eval/loss").waitFor();
}));

test("one curve per run, colored by a value, with a legend that does not grow", () => onPage(`group?q=${STUDY}&view=each&m=eval/loss`, async (page) => {
  await page.getByRole("img", { name: /^Color: optimizer\.lr from 0\.0001/ }).waitFor();
  await page.getByRole("group", { name: /^Chart of eval\/loss\. trial \d+: from/ }).waitFor();
  await page.getByLabel("Color by").selectOption("config.optimizer.name");
  assert.deepEqual(await page.getByRole("list", { name: "Color: optimizer.name" }).getByRole("listitem").allTextContents(), ["adamw", "lion", "muon", "sgd"]);
  assert.equal(queryOf(page).get("color"), "config.optimizer.name");
}));

test("two runs on one page: what differs, and results relative to a baseline", () => onPage("compare?runs=sweep-00,sweep-07", async (page) => {
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("rowheader", { name: "optimizer.lr" }).waitFor();
  const { metrics } = await (await fetch(`${address}/api/compare?run=sweep-00&run=sweep-07`)).json();
  const [a, b] = metrics.find((metric) => metric.name === "eval/loss").values.map((value) => value.last);
  const row = page.getByRole("region", { name: "Results side by side" }).getByRole("row").filter({ has: page.getByRole("rowheader", { name: "eval/loss" }) });
  const shown = async () => parseFloat((await row.locator(".delta").textContent()).replace("−", "-"));
  assert.ok(Math.abs((await shown()) - (100 * (b - a)) / a) < 0.1);
  await page.getByRole("button", { name: "Use as baseline" }).click();
  await waitFor(async () => Math.abs((await shown()) - (100 * (a - b)) / b) < 1, "the differences from the other run");
  await drawn(page, "eval/loss").waitFor();
}));

test("a run is compared with the run that has the tag baseline", () => onPage("run/sweep-02", async (page) => {
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.getByRole("heading", { name: "What differs" }).waitFor();
  assert.equal(queryOf(page).get("runs"), "curve-0,sweep-02");
}));

test("without a baseline, a run is compared with the run of its group that was started before", () => onPage("alerts", async (page) => {
  const change = (json) => page.evaluate(async (body) => (await fetch("/api/runs/curve-0/tags", { method: "POST", headers: { "Content-Type": "application/json", "X-Lockstep-Request": "1" }, body })).status, JSON.stringify(json));
  assert.equal(await change({ remove: ["baseline"] }), 200);
  await showView(page, "run/sweep-02");
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.getByRole("heading", { name: "What differs" }).waitFor();
  assert.equal(queryOf(page).get("runs"), "sweep-01,sweep-02");
  assert.equal(await change({ add: ["baseline"] }), 200);
}));

for (const colorScheme of ["light", "dark"]) {
  test(`a baseline is compared with on every page (${colorScheme})`, () => onPage(`?q=${encodeURIComponent("group = sweep")}&sort=id`, async (page) => {
    const { runs: rows } = await (await fetch(`${address}/api/runs?filter=group%20%3D%20sweep&sort=id&column=metric.eval/loss`)).json();
    const [first, second] = rows.map((row) => row.values["metric.eval/loss"]);
    // By keyboard: the first row is the baseline, the others show their difference.
    await page.getByRole("table", { name: "Runs" }).focus();
    await page.locator(".runs-row").first().getByRole("link", { name: rows[0].name, exact: true }).waitFor();
    await page.keyboard.press("j");
    await page.locator(".runs-row.at").waitFor();
    await page.keyboard.press("b");
    const row = page.locator(".runs-row").filter({ has: page.getByRole("link", { name: rows[1].name, exact: true }) });
    const delta = row.locator(".deltacell .delta").filter({ hasText: "%" });
    await delta.first().waitFor();
    const texts = (await row.locator(".deltacell").allTextContents()).join("|");
    const share = Math.abs((100 * (second - first)) / first);
    assert.ok(texts.includes(`· ${second < first ? "−" : "+"}${Number(share.toPrecision(3))} %`), `${texts}: ${share}`);
    await page.locator(".runs-row").first().getByText("baseline").waitFor();
    assert.equal(queryOf(page).get("base"), "sweep-00");
    assert.deepEqual(await violations(page), []);
    // Its page has no differences; the others have its curve and differences of results.
    await showView(page, "run/sweep-01");
    await drawn(page, "eval/loss").waitFor();
    await page.getByRole("group", { name: new RegExp(`^Chart of eval/loss\\. .*baseline ${rows[0].name}: from`) }).waitFor();
    await page.getByRole("list", { name: "Latest results" }).getByText("vs baseline").first().waitFor();
    assert.deepEqual(await violations(page), []);
    await showView(page, "run/sweep-00");
    await drawn(page, "eval/loss").waitFor();
    assert.equal(await page.getByText("vs baseline").count(), 0);
    assert.doesNotMatch(await drawn(page, "eval/loss").getAttribute("aria-label"), /baseline/);
    // In a comparison of others: in the legend, and in the results.
    await showView(page, "compare?runs=sweep-03,sweep-04");
    await page.getByRole("link", { name: `baseline ${rows[0].name}` }).waitFor();
    await page.getByRole("group", { name: new RegExp(`^Chart of eval/loss\\. .*baseline ${rows[0].name}`) }).waitFor();
    await page.getByRole("link", { name: "Results" }).click();
    await page.getByRole("columnheader", { name: rows[0].name }).waitFor();
    await page.locator(".delta.good, .delta.bad").first().waitFor();
    // It is the last one, so the compared runs keep their colors.
    assert.match(await page.getByRole("region", { name: "Results side by side" }).getByRole("columnheader").last().textContent(), new RegExp(rows[0].name));
    await showView(page, "compare?runs=sweep-03,sweep-04&tab=both");
    await page.getByText(`Compared with ${rows[3].name}.`).waitFor();
    assert.equal(await page.locator(".two-runs .tag").getByText("baseline").count(), 0);
    // A deleted or unknown one is named and can be removed.
    await showView(page, "run/sweep-01?x=step&base=no-such-run");
    await page.getByText("no-such-run: not found").waitFor();
    await page.getByRole("button", { name: "Remove the baseline" }).click();
    await page.getByText("not found").waitFor({ state: "detached" });
    page.consoleErrors.splice(0); // the browser logs the response 404
  }, { colorScheme }));

  test(`the uncommitted changes of a run, and whether the code of two runs is the same (${colorScheme})`, () => onPage("run/sweep-00/config", async (page) => {
    const changes = page.getByRole("region", { name: "Uncommitted changes" });
    await changes.getByText("1 file changed").waitFor();
    assert.deepEqual(await changes.locator(".diff-line.added").allTextContents(), ["+lr = 0.2 # \\u202e<script>window.pwned=1</script>\n"]);
    assert.deepEqual(await changes.locator(".diff-line.removed").allTextContents(), ["−lr = 0.1\n"]);
    const [patch] = await Promise.all([page.waitForEvent("download"), changes.getByRole("button", { name: "Save as patch" }).click()]);
    assert.equal(readFileSync(await patch.path(), "utf8"), DIFF);
    await page.getByText("2 Python packages").click();
    await page.getByText("numpy", { exact: true }).waitFor();
    assert.deepEqual(await violations(page), []);
    await showView(page, "run/sweep-02/config");
    await page.getByText("None: the tracked files were those of the commit.").waitFor();
    await showView(page, "compare?runs=sweep-00,sweep-01&tab=config");
    await page.getByText("The same commit and the same changes of tracked files in both runs").waitFor();
    await showView(page, "compare?runs=sweep-00,sweep-02&tab=config");
    await page.getByText("Different code: uncommitted changes differ.").waitFor();
  }, { colorScheme }));
}

test("a saved view opens what its author saw, for everyone, and can be removed", async () => {
  const saved = `group?q=${STUDY}&m=eval/accuracy&x=epoch&smooth=0.5`;
  await onPage(saved, async (page) => {
    await drawn(page, "eval/accuracy").waitFor();
    await page.getByRole("button", { name: "Saved views" }).click();
    await page.getByLabel("Name of this view").fill("Accuracy of the study");
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "Accuracy of the study" }).waitFor();
  });
  await onPage("", async (page) => {
    await page.getByRole("button", { name: "Saved views" }).click();
    await page.getByRole("link", { name: "Accuracy of the study" }).click();
    await drawn(page, "eval/accuracy").waitFor();
    assert.deepEqual(["x", "smooth", "m"].map((key) => queryOf(page).get(key)), ["epoch", "0.5", "eval/accuracy"]);
    await page.getByRole("button", { name: "Saved views" }).click();
    await page.getByRole("button", { name: "Remove view Accuracy of the study" }).click();
    await page.getByText("A view is everything that you see").waitFor();
  });
});

test("a note is Markdown, and HTML in it is text", () => onPage("run/sweep-01", async (page) => {
  await page.getByRole("button", { name: "More", exact: true }).click();
  await page.getByRole("button", { name: "Add note" }).click();
  await page.getByRole("textbox", { name: "Note" }).fill("## Why\n- **wider** is better\n- see https://example.org\n\n<img src=x onerror=\"window.pwned=1\">");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  const note = page.locator(".run-note");
  await note.getByRole("heading", { name: "Why" }).waitFor();
  assert.deepEqual(await note.getByRole("listitem").allTextContents(), ["wider is better", "see https://example.org"]);
  await note.getByText("<img src=x").waitFor();
  assert.equal(await note.locator("img").count(), 0);
}));

test("an analysis of nothing, and of a result that no run has, says so", () => onPage("analyze?q=name+%3D+nothing", async (page) => {
  await page.getByText("No runs match.").waitFor();
  await showView(page, `analyze?q=${STUDY}&target=metric.no/such`);
  await page.getByText(/0 runs with no\/such/).waitFor();
}));

/** A WebM file of one second that Chromium records. */
const recordedVideo = (page) => page.evaluate(async () => {
  const canvas = document.createElement("canvas");
  const ctx = canvas.getContext("2d");
  const recorder = new MediaRecorder(canvas.captureStream(20), { mimeType: "video/webm;codecs=vp8" });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const ended = new Promise((resolve) => (recorder.onstop = resolve));
  recorder.start();
  for (let i = 0; i < 20; i++) {
    ctx.fillStyle = `hsl(${i * 18} 80% 50%)`;
    ctx.fillRect(0, 0, 300, 150);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  recorder.stop();
  await ended;
  return [...new Uint8Array(await new Blob(parts).arrayBuffer())];
});

const CLIPS = `
import math, sys, lockstep
with lockstep.init(name="clips", id="clips", dir=sys.argv[1], agent=False) as run:
    for step in (0, 10, 20):
        tone = [0.3 * math.sin(0.05 * (step + 10) * i) for i in range(16000)]
        run.log({"eval/tone": lockstep.Audio(tone, sample_rate=8000, caption=f"tone {step}"), "eval/rollout": lockstep.Video(sys.argv[2])}, step=step)
`;

test("sounds and videos of the Python client play and seek, by step", () => onPage("alerts", async (page) => {
  writeFileSync(join(directory, "video.webm"), Buffer.from(await recordedVideo(page)));
  python(CLIPS, runs, join(directory, "video.webm"));
  await waitFor(() => matching("id = clips"), "the run");
  const ranges = [];
  page.on("response", (response) => response.url().includes("/clips/rank-0/") && ranges.push(response.status()));
  await showView(page, "run/clips/media");
  for (const [kind, name] of [["audio", "tone 20"], ["video", "eval/rollout"]]) {
    const player = page.locator(`${kind}[aria-label="${name} at step 20"]`);
    await player.waitFor();
    await player.evaluate(async (element) => {
      element.muted = true;
      await element.play();
      await new Promise((resolve) => (element.currentTime > 0 ? resolve() : element.addEventListener("timeupdate", resolve, { once: true })));
      element.pause();
      const seeked = new Promise((resolve) => element.addEventListener("seeked", resolve, { once: true }));
      element.currentTime = 0.5;
      await seeked;
    });
    assert.equal(await player.evaluate((element) => element.error), null);
  }
  assert.ok(ranges.includes(206), String(ranges));
  await page.getByLabel("Step of eval/tone").focus();
  await page.keyboard.press("ArrowLeft");
  await page.locator('audio[aria-label="tone 10 at step 10"]').waitFor();
  assert.deepEqual(await violations(page), []);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.deepEqual(await violations(page), []);
}));

const HALVED = `
import sys, lockstep
for i in range(26):
    pruned = i % 3 == 2
    tags = [f"trial:{i}"] + ["pruned"] * pruned if i < 24 else ["pruned"]
    with lockstep.init(name=f"half {i}", id=f"half-{i:02}", group="halved", dir=sys.argv[1], tags=tags, config={"lr": 0.01 * (i + 1), "width": 32 * (1 + i % 2)}, agent=False) as run:
        run.log({"eval/loss": 9.0 + i if pruned and i < 24 else 1.0 / (i + 1)}, step=1)
`;

test("pruned trials of a sweep are left out of every part of an analysis, or counted if the URL says so", () => onPage("alerts", async (page) => {
  python(HALVED, runs);
  const filter = encodeURIComponent("group = halved");
  // Meanwhile, the server has closed the idle connection.
  await waitFor(() => matching("group = halved").then((count) => count === 26, () => false), "the runs");
  const without = page.getByRole("button", { name: "Without pruned (8)" });
  const counts = async () => {
    const table = page.getByRole("region", { name: /eval\/loss\)? by width/ });
    await table.waitFor();
    return (await table.locator("tbody tr").evaluateAll((rows) => rows.map((row) => Number(row.cells[1].textContent)))).reduce((sum, one) => sum + one, 0);
  };
  const isWhole = async (count) => {
    await page.getByText(`${count} runs`, { exact: true }).waitFor();
    await isDrawn(page, count);
    await page.getByText(`Rests on ${count} runs.`).waitFor();
    await page.getByRole("group", { name: new RegExp(`^Scatter of .* of ${count} runs`) }).first().waitFor();
    assert.equal(await counts(), count);
  };
  await showView(page, `analyze?q=${filter}&by=config.width`);
  // Runs with the tag that are not trials are counted.
  await isWhole(18);
  assert.equal(await without.getAttribute("aria-pressed"), "true");
  await without.click();
  await isWhole(26);
  assert.deepEqual([queryOf(page).get("pruned"), await without.getAttribute("aria-pressed")], ["1", "false"]);
  // A result that is not among the first values has those of the same runs.
  await page.getByRole("group", { name: "Which value" }).getByRole("button", { name: "min" }).click();
  await isWhole(26);
  await without.click();
  await isWhole(18);
  assert.equal(queryOf(page).get("pruned"), null);
  assert.deepEqual(await violations(page), []);
  await page.getByRole("link", { name: "Show in table" }).click();
  await page.getByText(/^18 of \d+ runs$/).waitFor();
  // Of listed runs, too; and if nothing else is left, the switch is there.
  await showView(page, "analyze?runs=half-00,half-01,half-02,half-03,half-05&target=metric.eval/loss");
  await isDrawn(page, 3);
  await page.getByRole("button", { name: "Without pruned (2)" }).click();
  await isDrawn(page, 5);
  await showView(page, "analyze?runs=half-01,half-02,half-05");
  await page.getByText("One run cannot be analyzed.").waitFor();
  await page.getByRole("button", { name: "Without pruned (2)" }).click();
  await isDrawn(page, 3);
  // A filter that compares the tag says what it wants.
  await showView(page, `analyze?q=${encodeURIComponent("group = halved and tag = pruned")}`);
  await isDrawn(page, 10);
  assert.equal(await page.getByRole("button", { name: /^Without pruned/ }).count(), 0);
}));

test("the results in the order of start: the line is the best so far, and the text names the run that improved it last", () => onPage(ANALYSIS, async (page) => {
  const panel = page.getByRole("region", { name: "Order of start" });
  const { ids, columns } = await (await fetch(`${address}/api/analysis?filter=${STUDY}&column=metric.eval/loss&column=created`)).json();
  const valuesOf = (field) => columns.find((column) => column.field === field).values;
  const [loss, created] = [valuesOf("metric.eval/loss"), valuesOf("created")];
  const order = ids.map((_, i) => i).sort((a, b) => created[a] - created[b] || b - a);
  let best = Infinity;
  const improved = order.filter((i) => typeof loss[i] === "number" && loss[i] < best && ((best = loss[i]), true));
  const last = improved.at(-1);
  const later = order.slice(order.indexOf(last) + 1).filter((i) => typeof loss[i] === "number").length;
  await panel.getByText(new RegExp(`It improved ${improved.length - 1} times?; the last time with trial \\d+, ${best.toPrecision(4)}${later > 0 ? `, after which ${later} runs? did not improve it` : ""}\\.$`)).waitFor();
  assert.equal(await panel.getByRole("link").getAttribute("href"), `#/run/${ids[last]}`);
  const path = await panel.locator(".steps").getAttribute("d");
  assert.equal(path.match(/V/g)?.length ?? 0, improved.length - 1, "one step per improvement");
  // A run and a worse one that was started later: nothing improved.
  const [first, ...others] = order.filter((i) => typeof loss[i] === "number");
  const worse = others.find((i) => loss[i] > loss[first]);
  await showView(page, ANALYSIS.replace(STUDY, encodeURIComponent(`id in (${ids[first]}, ${ids[worse]})`)));
  await panel.getByText(new RegExp(`^The line is the best so far\\. 1 run did not improve the first result: trial \\d+, ${loss[first].toPrecision(4)}\\.$`)).waitFor();
  assert.equal(await panel.getByRole("link").getAttribute("href"), `#/run/${ids[first]}`);
}));

test("runs are archived and restored together, and changes of tags are undone", () => onPage(`?q=${encodeURIComponent("group = sweep")}&sel=sweep-00,sweep-01`, async (page) => {
  await page.getByText("12 of 2").waitFor();
  await page.getByRole("button", { name: "Archive", exact: true }).click();
  await page.getByText("2 runs archived").waitFor();
  await page.getByText("10 of 2").waitFor();
  assert.equal(await matching("tag = archived"), 2);
  await page.getByRole("button", { name: "Show 2 archived" }).click();
  await page.getByText("12 of 2").waitFor();
  await page.getByRole("button", { name: "Hide 2 archived" }).click();
  await page.getByText("10 of 2").waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.getByText("12 of 2").waitFor();
  await waitFor(async () => (await matching("tag = archived")) === 0, "the tags to be removed");
  // With "or" and a tag that one of the runs has already: only the other one loses it again.
  await showView(page, `?q=${encodeURIComponent("id = sweep-00 or id = sweep-01")}&sel=sweep-00`);
  await page.getByRole("button", { name: "Archive", exact: true }).click();
  await page.getByText("1 run archived").waitFor();
  await page.getByRole("link", { name: "lr0.01-w32-s0" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "lr0.03-w32-s0" }).waitFor();
  await showView(page, `?q=${encodeURIComponent("id = sweep-00 or id = sweep-01")}&sel=sweep-00,sweep-01&archived=1`);
  await page.getByRole("link", { name: "lr0.01-w32-s0" }).waitFor();
  await page.getByRole("button", { name: "Archive", exact: true }).click();
  await waitFor(async () => (await matching("tag = archived")) === 2, "both to be archived");
  await page.getByRole("button", { name: "Undo" }).last().click();
  await waitFor(async () => (await matching("tag = archived")) === 1, "the earlier tag to stay");
  // Groups and analyses leave it out too, unless the URL requests it.
  await showView(page, `analyze?q=${encodeURIComponent("group = sweep")}`);
  await page.getByText("11 runs", { exact: true }).waitFor();
  await showView(page, `group?q=${encodeURIComponent("group = sweep")}`);
  await page.getByRole("heading", { name: "11 runs" }).waitFor();
  await showView(page, `group?q=${encodeURIComponent("group = sweep")}&archived=1`);
  await page.getByRole("heading", { name: "12 runs" }).waitFor();
  await showView(page, `?q=${encodeURIComponent("id = sweep-00")}`);
  await page.getByRole("heading", { name: "Only archived runs" }).waitFor();
  await page.getByRole("button", { name: "Show archived runs" }).click();
  await page.getByRole("link", { name: "lr0.01-w32-s0" }).waitFor();
  assert.equal(queryOf(page).get("archived"), "1");
  await showView(page, `?q=${encodeURIComponent("tag = archived")}&sel=sweep-00`);
  await page.getByRole("link", { name: "lr0.01-w32-s0" }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.getByRole("button", { name: "Restore" }).click();
  await waitFor(async () => (await matching("tag = archived")) === 0, "it to be restored");
  await page.getByText("1 run restored").waitFor();
  // If one of the runs cannot be changed, the other one is, and can be undone.
  await showView(page, `?q=${encodeURIComponent("group = sweep")}&sel=sweep-02,sweep-03`);
  await page.route("**/api/runs/sweep-03/tags", (request) => request.abort());
  await page.getByRole("button", { name: "Archive", exact: true }).click();
  await page.getByText(/^1 run of 2 could not be changed: /).waitFor();
  await page.getByText(/^1 run archived/).last().waitFor();
  assert.equal(await matching("tag = archived"), 1);
  await page.getByRole("button", { name: "Undo" }).last().click();
  await waitFor(async () => (await matching("tag = archived")) === 0, "the undo");
  assert.deepEqual(page.consoleErrors.splice(0), ["Failed to load resource: net::ERR_FAILED"]);
}));

const WATCHED = `
import sys, torch, lockstep
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)
    def forward(self, x):
        return x + self.down(self.act(self.up(x)))
for name, blocks in (("watched", 2), ("deep", 20)):
    model = torch.nn.Sequential(torch.nn.Embedding(10, 8), *[Block() for _ in range(blocks)], torch.nn.Linear(8, 10))
    with lockstep.init(name=name, id=name, dir=sys.argv[1], agent=False) as run:
        run.watch(model, log_graph=True, log=None)
        model(torch.zeros(2, 5, dtype=torch.long))
        run.log({"loss": 1.0})
`;

test("the forward pass of a watched model is a graph: modules in order, shapes, sources, open and closed with the keyboard", () => onPage("alerts", async (page) => {
  python(WATCHED, runs);
  // Meanwhile, the server has closed the idle connection.
  await waitFor(() => matching("id = watched or id = deep").then((count) => count === 2, () => false), "the runs");
  await showView(page, "run/watched/media");
  const graph = page.getByRole("region", { name: "Graph model/forward" });
  await graph.waitFor();
  const texts = (await graph.locator("li > div, li > details > summary").allTextContents()).map((text) => text.trim().replace(/\s+/g, " "));
  assert.deepEqual(texts.slice(0, 6), ["(the model) Sequential2 × 5 × 10", "0 Embedding from the input2 × 5 × 8", "1 Block2 × 5 × 8", "up Linear from the input2 × 5 × 32", "act GELU2 × 5 × 32", "down Linear2 × 5 × 8"]);
  assert.equal(texts.length, 11);
  assert.equal(await graph.locator("li.follows").count(), 2 * 2 + 3);
  assert.deepEqual(await violations(page), []);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.deepEqual(await violations(page), []);
  const summary = graph.locator("summary", { hasText: "1 Block" });
  await summary.press("Enter");
  await graph.getByText("up", { exact: true }).first().waitFor({ state: "hidden" });
  await page.getByRole("group", { name: "model/forward as" }).getByRole("button", { name: "Table" }).click();
  await page.getByRole("region", { name: "Table model/forward" }).getByRole("cell", { name: "1.up" }).waitFor();
  assert.equal(queryOf(page).get("graph"), "table");
  // A deep model shows its outermost modules first.
  await showView(page, "run/deep/media");
  await graph.getByText("20", { exact: true }).waitFor();
  assert.equal(await graph.getByText("up", { exact: true }).count(), 0);
  await graph.locator("summary", { hasText: "17 Block" }).press("Enter");
  await graph.getByText("up", { exact: true }).waitFor();
}));

test("searches, the scale of a chart, closed sections and the sides of a comparison are in the link", () => onPage("run/sweep-00/config", async (page) => {
  await page.getByLabel("Search the configuration").fill("optimizer");
  await onCopy(page, { find: "optimizer" }, async (copy) => assert.equal(await copy.getByLabel("Search the configuration").inputValue(), "optimizer"));

  await showView(page, "run/sweep-00");
  await page.getByRole("button", { name: "More options for eval/loss" }).click();
  await page.getByRole("button", { name: "Log scale" }).click();
  await page.getByRole("button", { name: /^train ?\d/ }).click();
  await onCopy(page, { "log.eval/loss": "1", closed: "train" }, async (copy) => {
    await copy.getByRole("button", { name: "More options for eval/loss" }).click();
    await copy.getByRole("button", { name: "Log scale" }).locator("svg").waitFor();
    assert.equal(await copy.getByRole("button", { name: /^train ?\d/ }).getAttribute("aria-expanded"), "false");
  });
  // A link without it opens the section, also for a user who has closed it.
  const link = page.url().replace("closed=train&", "").replace(/&closed=train/, "");
  await showView(page, "");
  await page.goto(link);
  await page.locator('h2 button[aria-expanded="true"]', { hasText: /^train/ }).waitFor();

  await showView(page, "compare?runs=sweep-00,sweep-01,sweep-02&tab=results");
  await page.getByRole("button", { name: "max", exact: true }).click();
  await page.getByLabel("Search metrics").fill("eval");
  await onCopy(page, { which: "max", find: "eval" }, async (copy) => {
    await copy.getByRole("button", { name: "max", exact: true, pressed: true }).waitFor();
    assert.equal(await copy.getByLabel("Search metrics").inputValue(), "eval");
  });
  await showView(page, "compare?runs=sweep-00,sweep-01,sweep-02&tab=config");
  await page.getByLabel("Show identical values").check();
  await onCopy(page, { all: "1" }, async (copy) => assert.ok(await copy.getByLabel("Show identical values").isChecked()));
  await showView(page, "compare?runs=sweep-00,sweep-01,sweep-02");
  await page.getByLabel("Color by").selectOption({ index: 1 });
  const color = await page.getByLabel("Color by").inputValue();
  await onCopy(page, { color }, async (copy) => assert.equal(await copy.getByLabel("Color by").inputValue(), color));
  // The colors that a user has chosen earlier are in the link as well.
  await showView(page, "compare?runs=sweep-01,sweep-02");
  await waitFor(() => queryOf(page).get("color") === color, "the link to have the color");

  await showView(page, ANALYSIS);
  await page.getByRole("button", { name: "Mean", exact: true }).click();
  await onCopy(page, { bysort: "mean" }, async (copy) => copy.getByRole("button", { name: "Mean", exact: true, pressed: true }).waitFor());
}));

const NUMBERS = `
import lockstep, sys
with lockstep.init(name="numbers", id="numbers", dir=sys.argv[1], agent=False) as run:
    for step in range(20):
        run.log({"train/loss": 1e33 / (1 + step), "train/bits": 1e-3 * step}, step=step)
    run.log({"sizes": lockstep.Table(columns=["part", "bytes", "count", "share"], data=[["a", None, 12345678, None], ["b", 3 << 20, None, 0.25]])}, step=1)
`;

test("a loss that diverges has an axis, and tables have units and no nulls", () => onPage("alerts", async (page) => {
  python(NUMBERS, runs);
  await waitFor(() => matching("id = numbers"), "the run");
  await showView(page, "run/numbers");
  // The labels of the vertical axis, left of the plot and above the horizontal axis.
  const hasLabels = (name) => drawn(page, name).locator("canvas").evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, 30 * devicePixelRatio, canvas.height - 40 * devicePixelRatio);
    return data.some((value, i) => i % 4 === 3 && value > 0);
  });
  for (const name of ["train/bits", "train/loss"]) await waitFor(() => hasLabels(name), `the axis of ${name}`, 20);
  await showView(page, "run/numbers/media");
  const rows = page.getByRole("region", { name: "Table sizes" }).locator("tbody tr");
  await rows.first().waitFor();
  assert.deepEqual(await rows.evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => `${cell.textContent}${cell.className === "num" ? " right" : ""}`))),
    [["a", "– right", "12,345,678 right", "– right"], ["b", "3.0 MiB right", "– right", "0.25 right"]]);
}));
