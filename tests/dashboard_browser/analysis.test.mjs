// The analysis of many runs, expressions, two runs on one page and saved views, through user interactions.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { brushThrough, drawn, showView, visit } from "./browser.mjs";
import { directory, end, python, record, runs, serve, waitFor } from "./world.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

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
const queryOf = (page) => new URLSearchParams(page.url().split("?").slice(1).join("?"));

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
  await page.getByRole("img", { name: /^Scatter of (model\.hidden against optimizer\.lr|optimizer\.lr against model\.hidden) of 200 runs, colored by eval\/loss$/ }).waitFor();
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

const violations = async (page) => {
  await page.evaluate(axe);
  return (await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }))).violations.map((v) => `${v.id}: ${v.nodes[0]?.html}`);
};

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

const VECTORS = `
import math, random, sys, lockstep
random.seed(3)
centers = [[random.gauss(0, 4) for _ in range(40)] for _ in range(3)]
def vector(kind): return [center + random.gauss(0, 1) for center in centers[kind]]
with lockstep.init(name="vectors", id="vectors", dir=sys.argv[1], agent=False) as run:
    for step in (0, 10):
        rows = [[["cat", "dog", "eel"][i % 3], vector(i % 3), f"sample {i} of step {step}", i / 300 if i != 7 else math.inf] for i in range(300)]
        rows.append(["cat", [float("nan")] * 40, "not finite", 1])
        ball = [[math.cos(i) * math.sin(0.1 * i), math.sin(i) * math.sin(0.1 * i), math.cos(0.1 * i), "top" if i < 16 else "bottom"] for i in range(31)]
        run.log({"eval/cloud": lockstep.Table(columns=["x", "y", "z", "part"], data=ball), "eval/embedding": lockstep.Table(columns=["label", "vector", "text", "loss"], data=rows),
                 "eval/layout": lockstep.Table(columns=["vector", "label"], data=[[[1 + i, 1000 ** i], "x"] for i in range(4)])}, step=step)
`;

/** Opens the media of the run vectors, which the first call records. */
let vectors;
async function showVectors(page) {
  vectors ??= python(VECTORS, runs);
  await waitFor(() => matching("id = vectors"), "the run");
  await showView(page, "run/vectors/media");
}

test("a table with vectors of the Python client is a map of its principal components: colors, search, a row, and the table", () => onPage("alerts", async (page) => {
  await showVectors(page);
  const card = page.locator("section.card").filter({ has: page.getByRole("heading", { name: /^eval\/embedding/ }) });
  const map = card.getByRole("img", { name: /^Scatter of component 2: [\d.]+ % of the variance against component 1: [\d.]+ % of the variance of 300 rows, colored by label$/ });
  await map.waitFor();
  for (const label of ["cat", "dog", "eel"]) await card.getByRole("list", { name: "Color: label" }).getByText(label, { exact: true }).waitFor();
  await card.getByText("1 row left out: the vector has another length than the first, or a value that is not finite.").waitFor();
  // The coordinates: the rows of a label are near their mean, which is far from those of the others.
  const [file] = await Promise.all([page.waitForEvent("download"), card.getByRole("button", { name: "Save eval/embedding as CSV" }).click()]);
  const [head, ...rows] = readFileSync(await file.path(), "utf8").trim().split("\n").map((line) => line.split(","));
  assert.deepEqual(head, ["label", "text", "loss", "component 1", "component 2", "component 3", "component 4", "component 5"]);
  assert.equal(rows.length, 300);
  const spans = ["cat", "dog", "eel"].map((label) => [3, 4].map((k) => rows.filter((row) => row[0] === label).map((row) => Number(row[k]))).map((all) => [Math.min(...all), Math.max(...all)]));
  for (const [a, b] of [[0, 1], [0, 2], [1, 2]]) assert.ok([0, 1].some((k) => spans[a][k][1] < spans[b][k][0] || spans[b][k][1] < spans[a][k][0]), "labels are apart");
  await card.getByLabel("Find rows of eval/embedding").fill("sample 12 of");
  await card.getByText("1 of 300 rows").waitFor();
  // The pointer and a click on the only point that is left show its row.
  await card.getByLabel("Color", { exact: true }).selectOption("loss");
  await card.getByRole("img", { name: /^Color: loss from 0(\.0+)? to 0\.99/ }).waitFor();
  await card.locator(".scatter").scrollIntoViewIfNeeded();
  const at = await findPoint(card.locator(".scatter"));
  await card.locator(".tip").getByText("sample 12 of step 10").waitFor();
  await page.mouse.click(at.x, at.y);
  const opened = card.getByLabel("The row of the chosen point");
  await opened.getByText("sample 12 of step 10").waitFor();
  await card.getByLabel("y", { exact: true }).selectOption("component 3");
  await card.getByRole("img", { name: /^Scatter of component 3/ }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.deepEqual(await violations(page), []);
  // A slider that moves loads only the step at which it rests, and the map keeps what was chosen.
  const loaded = [];
  page.on("request", (request) => request.url().includes("/tables?name=eval%2Fembedding") && loaded.push(new URL(request.url()).searchParams));
  const workers = [];
  page.on("worker", (worker) => worker.url().endsWith("/projection.js") && workers.push(worker));
  await card.getByLabel("Step of eval/embedding").evaluate((slider) => {
    for (const at of [0, 1, 0, 1, 0]) {
      slider.value = at;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    }
  });
  await opened.getByText("sample 12 of step 0").waitFor();
  await card.getByRole("img", { name: /^Scatter of component 3/ }).waitFor();
  assert.equal(await card.getByLabel("Color", { exact: true }).inputValue(), "loss");
  assert.equal(await card.getByLabel("Find rows of eval/embedding").inputValue(), "sample 12 of");
  assert.deepEqual([new Set(loaded.map((query) => query.get("at"))).size, loaded.filter((query) => query.get("rows") === "200").length, workers.length], [1, 1, 1]);
  // Two numbers are drawn as they are.
  await page.getByRole("img", { name: "Scatter of coordinate 2 against coordinate 1 of 4 rows, colored by label" }).waitFor();
  // In three dimensions, also of rows with coordinates.
  await card.getByRole("button", { name: "PCA map" }).waitFor();
  await card.getByRole("button", { name: "3-D" }).click();
  await card.getByRole("group", { name: "300 points of eval/embedding in three dimensions: component 1, component 2, component 3; colored by loss" }).waitFor();
  const points = page.getByRole("group", { name: "31 points of eval/cloud in three dimensions: x, y, z; colored by part" });
  const pixels = () => points.locator("canvas").evaluate((canvas) => canvas.toDataURL());
  const before = await pixels();
  await points.focus();
  await page.keyboard.press("ArrowRight");
  await waitFor(async () => (await pixels()) !== before, "the points to be rotated");
  await page.keyboard.press("0");
  await waitFor(async () => (await pixels()) === before, "the points to be as at the beginning");
  await findPoint(points);
  await points.locator(".tip").getByText(/^(top|bottom)$/).waitFor();
  // A click opens the point, also if the pointer moves a little; a drag rotates and opens nothing.
  const row = page.getByLabel("The row of the chosen point").filter({ hasText: "part" });
  const mark = await points.locator(".scatter-mark").evaluate((element) => { const box = element.getBoundingClientRect(); return { x: box.x + box.width / 2, y: box.y + box.height / 2 }; });
  await page.mouse.move(mark.x, mark.y);
  await page.mouse.down();
  await page.mouse.move(mark.x + 60, mark.y + 1, { steps: 3 });
  await page.mouse.move(mark.x, mark.y, { steps: 3 });
  await page.mouse.up();
  assert.equal(await row.count(), 0, "a drag that ends where it began");
  await page.mouse.down();
  await page.mouse.move(mark.x + 2, mark.y + 1);
  await page.mouse.up();
  await row.getByText(/^(top|bottom)$/).waitFor();
  assert.deepEqual(await violations(page), []);
  await card.getByRole("button", { name: "Table" }).click();
  await card.getByRole("cell", { name: /^\[.*, … 40 numbers\]$/ }).first().waitFor();
  assert.equal(queryOf(page).get("points"), "table");
}));

/** Moves the pointer over a plot until it is near a point. Returns the position. */
const findPoint = (plot) => plot.evaluate(async (element) => {
  const canvas = element.querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  for (let y = box.top + 24; y < box.bottom - 24; y += 12) {
    for (let x = box.left + 60; x < box.right - 8; x += 12) {
      canvas.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: x, clientY: y }));
      await new Promise((resolve) => setTimeout(resolve));
      if (element.querySelector(".tip")) return { x, y };
    }
  }
  throw new Error("no point under the pointer");
});

/** Waits until the URL has these parameters, and runs `look` on a new page with this URL. */
async function onCopy(page, parameters, look) {
  const written = () => Object.fromEntries(Object.keys(parameters).map((key) => [key, queryOf(page).get(key)]));
  await waitFor(() => JSON.stringify(written()) === JSON.stringify(parameters), `the URL to have ${JSON.stringify(parameters)}, not ${JSON.stringify(written())}`, 20);
  await visit(page.url(), look);
}

/** The pixels of a saved image: its size and its colors. */
async function savedImage(page, button) {
  const [file] = await Promise.all([page.waitForEvent("download"), button.click()]);
  const png = readFileSync(await file.path()).toString("base64");
  return page.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const ctx = canvas.getContext("2d");
    ctx.drawImage(image, 0, 0);
    const pixels = new Uint32Array(ctx.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    const counts = {};
    for (const pixel of pixels) {
      const color = `rgb(${pixel & 255}, ${(pixel >> 8) & 255}, ${(pixel >> 16) & 255})`;
      counts[color] = (counts[color] ?? 0) + 1;
    }
    return { width: canvas.width, height: canvas.height, counts };
  }, png);
}

test("maps of vectors and points are saved as PNG with axes and legend, at twice the resolution of the page", () => onPage("alerts", async (page) => {
  await showVectors(page);
  const card = page.locator("section.card").filter({ has: page.getByRole("heading", { name: /^eval\/embedding/ }) });
  await card.getByRole("img", { name: /of 300 rows, colored by label$/ }).waitFor();
  const plot = card.locator(".scatter");
  const save = card.getByRole("button", { name: "Save eval/embedding as PNG" });
  const dots = await card.getByRole("list", { name: "Color: label" }).locator(".dot").evaluateAll((all) => all.map((dot) => getComputedStyle(dot).backgroundColor));
  assert.equal(dots.length, 3);
  const grid = await plot.locator("line.grid").first().evaluate((line) => getComputedStyle(line).stroke);
  for (const view of ["map", "space"]) {
    if (view === "space") await card.getByRole("button", { name: "3-D" }).click();
    const { width, height } = await plot.evaluate((element) => ({ width: element.clientWidth, height: element.clientHeight }));
    const image = await savedImage(page, save);
    assert.ok(image.width > 2 * width && image.width < 2 * width + 100, `${image.width} for ${width}`);
    assert.ok(image.height > 2 * height + 80, `${image.height} for ${height}`);
    // The disks of the legend are in these colors; the points are transparent.
    for (const color of dots) assert.ok(image.counts[color] > 50, `${view}: ${image.counts[color]} pixels of ${color}`);
    if (view === "map") assert.ok(image.counts[grid] > 1000, `${image.counts[grid]} pixels of the grid`);
  }
  await page.getByRole("button", { name: "Save eval/cloud as PNG" }).waitFor();
}));

/** The coordinates of each label in the CSV of a map. */
async function placesByLabel(page, card) {
  const [file] = await Promise.all([page.waitForEvent("download"), card.getByRole("button", { name: "Save eval/embedding as CSV" }).click()]);
  const [head, ...rows] = readFileSync(await file.path(), "utf8").trim().split("\n").map((line) => line.split(","));
  assert.deepEqual(head, ["label", "text", "loss", "UMAP 1", "UMAP 2"]);
  assert.equal(rows.length, 300);
  return ["cat", "dog", "eel"].map((label) => rows.filter((row) => row[0] === label).map((row) => [Number(row[3]), Number(row[4])]));
}

function assertApart(groups) {
  const between = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
  const centers = groups.map((places) => [0, 1].map((k) => places.reduce((sum, place) => sum + place[k], 0) / places.length));
  const widest = Math.max(...groups.flatMap((places, i) => places.map((place) => between(place, centers[i]))));
  for (const [a, b] of [[0, 1], [0, 2], [1, 2]]) assert.ok(between(centers[a], centers[b]) > 2 * widest, `${centers[a]} and ${centers[b]}, up to ${widest} wide`);
}

test("UMAP of a table with vectors: loaded when it is chosen, groups are apart, the same picture each time, with its parameters", () => onPage("alerts", async (page) => {
  const scripts = [];
  page.on("request", (request) => request.url().endsWith(".js") && scripts.push(new URL(request.url()).pathname));
  await showVectors(page);
  const cardOf = (on) => on.locator("section.card").filter({ has: on.getByRole("heading", { name: /^eval\/embedding/ }) });
  const mapOf = (on) => cardOf(on).getByRole("img", { name: "Scatter of UMAP 2 against UMAP 1 of 300 rows, colored by label" });
  const pixels = (on) => mapOf(on).locator("canvas").evaluate((canvas) => canvas.toDataURL());
  const card = cardOf(page);
  await card.getByRole("img", { name: /^Scatter of component 2/ }).waitFor();
  assert.ok(!scripts.includes("/umap.js"), `${scripts}`);
  await card.getByRole("button", { name: "UMAP" }).press("Enter");
  await mapOf(page).waitFor();
  assertApart(await placesByLabel(page, card));
  await card.getByText("1 row left out: the vector has another length than the first, or a value that is not finite.").waitFor();
  assert.deepEqual(await violations(page), []);
  await page.emulateMedia({ colorScheme: "dark" });
  assert.deepEqual(await violations(page), []);
  await page.emulateMedia({ colorScheme: "light" });
  // Only vectors have it: neither points nor two coordinates.
  assert.equal(await page.getByRole("button", { name: "UMAP" }).count(), 1);
  const first = await pixels(page);
  await onCopy(page, { points: "umap" }, async (copy) => {
    await mapOf(copy).waitFor();
    assert.equal(await pixels(copy), first, "the same picture");
  });
  // Parameters, with the keyboard.
  const neighbors = card.getByLabel("Neighbors", { exact: true });
  await neighbors.focus();
  await page.keyboard.press("ArrowDown");
  await waitFor(async () => (await mapOf(page).count()) === 1 && (await card.getByRole("progressbar").count()) === 0 && (await pixels(page)) !== first, "the map of 20 neighbors");
  assert.ok(await neighbors.evaluate((select) => select === document.activeElement), "the menu has the focus");
  await card.getByLabel("Minimum distance", { exact: true }).selectOption("0.5");
  await onCopy(page, { points: "umap", "neighbors.eval/embedding": "20", "distance.eval/embedding": "0.5" }, async (copy) => {
    await mapOf(copy).waitFor();
    assert.deepEqual([await cardOf(copy).getByLabel("Neighbors", { exact: true }).inputValue(), await cardOf(copy).getByLabel("Minimum distance", { exact: true }).inputValue()], ["20", "0.5"]);
    await waitFor(async () => (await card.getByRole("progressbar").count()) === 0, "the map");
    assert.equal(await pixels(copy), await pixels(page));
  });
  // A map that was left is not computed again.
  const workers = [];
  page.on("worker", (worker) => worker.url().endsWith("/umap.js") && workers.push(worker.url()));
  await card.getByRole("button", { name: "Table" }).click();
  await card.getByText("1 – 200 of 301").waitFor();
  await card.getByRole("button", { name: "UMAP" }).click();
  await mapOf(page).waitFor();
  assert.deepEqual(workers, []);
}));

const MANY_VECTORS = `
import random, sys, lockstep
random.seed(4)
with lockstep.init(name="many", id="many", dir=sys.argv[1], agent=False) as run:
    run.log({"eval/many": lockstep.Table(columns=["vector", "label"], data=[[[random.gauss(10 * (i % 2), 1) for _ in range(24)], i % 2] for i in range(6000)]),
             "eval/few": lockstep.Table(columns=["vector", "label"], data=[[[1, 2, i], "x"] for i in range(3)])}, step=1)
`;
const umapWorkers = (page) => page.workers().filter((worker) => worker.url().endsWith("/umap.js")).length;
const isFocused = (element) => element.evaluate((node) => node === document.activeElement);

test("UMAP of many vectors is thinned, reports its progress, and is canceled and started again with the keyboard", () => onPage("alerts", async (page) => {
  python(MANY_VECTORS, runs);
  await waitFor(() => matching("id = many").catch(() => 0), "the run"); // meanwhile, the server may have closed the idle connection
  await showView(page, "run/many/media?points=umap");
  await page.getByText("UMAP needs at least 4 vectors; this table has 3.").waitFor();
  const card = page.locator("section.card").filter({ has: page.getByRole("heading", { name: /^eval\/many/ }) });
  const bar = card.getByRole("progressbar", { name: "Progress of UMAP of eval/many" });
  await card.getByText("Computing UMAP of 5,000 vectors…").waitFor();
  await card.getByText("UMAP of 5,000 of 6,000 vectors, evenly chosen.").waitFor();
  await waitFor(async () => Number(await bar.getAttribute("aria-valuenow")) > 0, "progress");
  await card.getByRole("button", { name: "Cancel" }).press("Enter");
  await card.getByText("UMAP was canceled.").waitFor();
  assert.equal(await bar.count(), 0);
  await waitFor(() => umapWorkers(page) === 0, "the end of the worker");
  assert.deepEqual(await violations(page), []);
  const again = card.getByRole("button", { name: "Compute" });
  assert.ok(await again.evaluate((button) => button === document.activeElement), "it has the focus");
  await page.keyboard.press("Enter");
  await bar.waitFor();
  assert.deepEqual(await violations(page), []);
  // Another choice, and another view, end the worker too.
  await waitFor(() => umapWorkers(page) === 1, "the worker");
  const [worker] = page.workers().filter((one) => one.url().endsWith("/umap.js"));
  const ended = new Promise((resolve) => worker.on("close", resolve));
  await card.getByLabel("Neighbors", { exact: true }).selectOption("5");
  await ended;
  await waitFor(() => umapWorkers(page) === 1, "the worker of the other choice");
  await card.getByRole("button", { name: "Table" }).click();
  await waitFor(() => umapWorkers(page) === 0, "the end of the worker");
  // A report has no workers: it shows the principal components instead.
  const report = join(directory, "many.html");
  writeFileSync(report, await (await fetch(`${address}/api/report.html?run=many`)).text());
  await visit(`file://${report}#/run/many/media?points=umap`, async (copy) => {
    await copy.getByRole("img", { name: /^Scatter of component 2.* of 2,?000 rows/ }).waitFor();
    assert.equal(await copy.getByRole("button", { name: "UMAP" }).count(), 0);
  });
}));

const TINY = `
import sys, lockstep
with lockstep.init(name="tiny", id="tiny", dir=sys.argv[1], agent=False) as run:
    columns = ["vector", "vector/deep", "label"]
    run.log({name: lockstep.Table(columns=columns, data=[[[i, 1], [1, 2, i], "x"] for i in range(6)]) for name in ("eval/first", "eval/second")}, step=1)
    run.log({"eval/chain": lockstep.Table(columns=["call", "module", "type", "output", "inside", "inputs"], data=[[i + 1, "a", "A", "1", i or None, ""] for i in range(300)]),
             "eval/same": lockstep.Table(columns=["call", "module", "type", "output", "inside", "inputs"], data=[[1, "a", "A", "1", None, ""]] * 2)})
`;

test("a map of UMAP stays while many others are computed, keeps the focus in its group, and is of the vectors with more than two numbers", () => onPage("alerts", async (page) => {
  python(TINY, runs);
  await waitFor(() => matching("id = tiny").then((count) => count === 1, () => false), "the run");
  await showView(page, "run/tiny/media?points=umap");
  const cardOf = (name) => page.locator("section.card").filter({ has: page.getByRole("heading", { name: new RegExp(`^${name}`) }) });
  const [first, second] = [cardOf("eval/first"), cardOf("eval/second")];
  const mapOf = (card) => card.getByRole("img", { name: "Scatter of UMAP 2 against UMAP 1 of 6 rows" });
  await mapOf(first).waitFor();
  assert.equal(await first.getByLabel("Vectors", { exact: true }).count(), 0, "only one column is not of coordinates");
  for (const distance of ["0", "0.25", "0.8"]) {
    await second.getByLabel("Minimum distance", { exact: true }).selectOption(distance);
    for (const neighbors of ["5", "10", "20", "30", "50"]) {
      await second.getByLabel("Neighbors", { exact: true }).selectOption(neighbors);
      await waitFor(async () => (await second.locator(".umap-status").count()) === 0, "the map");
    }
  }
  await first.getByRole("searchbox").fill("x"); // renders it again
  await first.getByText("6 of 6 rows").waitFor();
  assert.deepEqual([await first.locator(".umap-status").count(), await mapOf(first).count()], [0, 1]);
  // Tables with the columns of a forward pass whose rows are none.
  for (const name of ["eval/chain", "eval/same"]) {
    await page.getByRole("region", { name: `Table ${name}` }).waitFor();
    assert.equal(await page.getByRole("group", { name: `${name} as` }).count(), 0);
  }
  // The focus: a worker that waits until it is let go.
  let answer;
  const asked = new Promise((resolve) => page.route("**/umap.js", (route) => resolve((answer = () => route.continue()))));
  await second.getByLabel("Minimum distance", { exact: true }).selectOption("0.05");
  await asked;
  const cancel = second.getByRole("button", { name: "Cancel" });
  await cancel.focus();
  await answer();
  await cancel.waitFor({ state: "detached" });
  assert.ok(await isFocused(second.getByRole("group", { name: "UMAP of eval/second" })), "the group has the focus");
  assert.deepEqual(await violations(page), []);
  // A script that fails ends its worker, and the map can be started again.
  await page.unroute("**/umap.js");
  await page.route("**/umap.js", (route) => route.fulfill({ contentType: "text/javascript", body: "addEventListener('message', () => setTimeout(() => { throw new Error('x'); }))" }));
  await second.getByLabel("Neighbors", { exact: true }).selectOption("5");
  await second.getByText("UMAP could not be computed: the script /umap.js failed.").waitFor();
  await waitFor(() => umapWorkers(page) === 0, "the end of the worker");
  await page.unroute("**/umap.js");
  await second.getByRole("button", { name: "Compute" }).press("Enter");
  await mapOf(second).waitFor();
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

test("every choice of a view of media and tables is in its link", () => onPage("alerts", async (page) => {
  await showVectors(page);
  const cardOf = (on, name) => on.locator("section.card").filter({ has: on.getByRole("heading", { name: new RegExp(`^${name}`) }) });
  const card = cardOf(page, "eval/embedding");
  await card.getByRole("img", { name: /of 300 rows, colored by label$/ }).waitFor();
  await card.getByLabel("Color", { exact: true }).selectOption("text");
  await card.getByLabel("x", { exact: true }).selectOption("component 4");
  await card.getByLabel("Find rows of eval/embedding").fill("sample 12 of");
  await card.getByText("1 of 300 rows").waitFor();
  await card.locator(".scatter").scrollIntoViewIfNeeded();
  const at = await findPoint(card.locator(".scatter"));
  await page.mouse.click(at.x, at.y);
  const points = page.getByRole("group", { name: /^31 points of eval\/cloud/ });
  const pixels = (on) => on.getByRole("group", { name: /^31 points of eval\/cloud/ }).locator("canvas").evaluate((canvas) => canvas.toDataURL());
  const before = await pixels(page);
  await points.focus();
  for (const key of ["ArrowRight", "ArrowUp", "+"]) await page.keyboard.press(key);
  await waitFor(async () => (await pixels(page)) !== before, "the points to be rotated");
  await page.getByLabel("Step of eval/layout").fill("0");
  await waitFor(() => queryOf(page).has("at.eval/layout"), "the URL to have the step");
  await onCopy(page, { "color.eval/embedding": "text", "axes.eval/embedding": "4-2", "find.eval/embedding": "sample 12 of", "row.eval/embedding": "13", "turn.eval/cloud": "-0.4255,0.6245,1.25" }, async (copy) => {
    const own = cardOf(copy, "eval/embedding");
    await own.getByRole("img", { name: /^Scatter of component 2: .* against component 4: .* colored by text$/ }).waitFor();
    await own.getByText("1 of 300 rows").waitFor();
    await own.getByLabel("The row of the chosen point").getByText("sample 12 of step 10").waitFor();
    await waitFor(async () => (await pixels(copy)) === (await pixels(page)), "the points to be rotated as in the link");
    assert.equal(await copy.getByLabel("Step of eval/layout").getAttribute("aria-valuetext"), "0");
    // "0" is the view at the start, which the URL does not contain.
    await copy.getByRole("group", { name: /^31 points of eval\/cloud/ }).focus();
    await copy.keyboard.press("0");
    await waitFor(() => !queryOf(copy).has("turn.eval/cloud"), "the URL of the start");
  });
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
