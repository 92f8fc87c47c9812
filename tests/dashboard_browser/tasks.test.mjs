// Common questions about runs, each answered with at most two clicks from the table of runs (docs/dashboard_first_use.md).
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { drawn, showView, visit } from "./browser.mjs";
import { end, python, record, runs, serve, train, waitFor } from "./world.mjs";

const MAX_CLICKS = 2;
const SWEEP = `?q=${encodeURIComponent("group = sweep")}`;
const FAILS = `
import sys, lockstep
with lockstep.init(name="fails", id="fails", dir=sys.argv[1], agent=False) as run:
    run.log({"train/loss": 1.0, "samples": lockstep.Table(columns=["prompt", "text"], data=[["Once", "upon a time"]])}, step=1)
    run.alert("loss is high", "1.0 at step 1", level="warning")
    raise RuntimeError("CUDA out of memory")
`;
let address;
let trained;

before(async () => {
  record("sweep", "30", "60");
  record("study", "120");
  record("ranks", "4", "60");
  trained = train("first");
  assert.throws(() => python(FAILS, runs), /CUDA out of memory/);
  address = await serve();
  await waitFor(async () => (await (await fetch(`${address}/api/runs`)).json()).matching === 153, "all runs");
});

after(end);

/** Starts at a view of the table. `click` counts. */
function task(what, view, work) {
  test(what, () => visit(`${address}/#/`, async (page) => {
    await showView(page, view);
    let clicks = 0;
    const click = async (target) => {
      clicks++;
      await target.click();
    };
    await work(page, click);
    assert.ok(clicks <= MAX_CLICKS, `${clicks} clicks`);
  }));
}

const named = (page, name) => page.locator(".runs-row").getByRole("link", { name, exact: true });
const tab = (page, name) => page.getByRole("navigation", { name: "Run tabs" }).getByRole("link", { name });

for (const [metric, best] of [["eval/accuracy", Math.max], ["eval/loss", Math.min]])
  task(`the run with the best ${metric} of 30`, SWEEP, async (page, click) => {
    const { runs: all } = await (await fetch(`${address}/api/runs?filter=group%20%3D%20sweep&limit=30&column=metric.${metric}`)).json();
    const most = all.reduce((found, run) => (best(found.values[`metric.${metric}`], run.values[`metric.${metric}`]) === run.values[`metric.${metric}`] ? run : found));
    await click(page.getByRole("columnheader", { name: metric }).getByRole("button"));
    await waitFor(async () => (await page.locator(".runs-row .name a").first().textContent()) === most.name, "the best run to be first");
  });

task("why a run failed", `?q=${encodeURIComponent("name = fails")}`, async (page, click) => {
  await click(named(page, "fails"));
  await page.getByText("RuntimeError: CUDA out of memory").waitFor();
});

task("which rank is slow, and in which part of the step", `?q=${encodeURIComponent("name ~ ranks")}`, async (page, click) => {
  await click(named(page, "many ranks"));
  await click(tab(page, /^Ranks & nodes/));
  await page.locator("[data-verdict]").getByText(/Rank 1 is the slowest: 1\d\.\d+ ms of local work per step, 1\.\d\d × the median/).waitFor();
});

task("what mattered in a sweep", `?q=${encodeURIComponent("group = study")}`, async (page, click) => {
  await click(page.getByRole("link", { name: "Analyze" }));
  await page.getByRole("region", { name: "Importance of hyperparameters" }).getByRole("rowheader", { name: "optimizer.lr" }).waitFor();
});

task("what differs between a run and the one before", SWEEP, async (page, click) => {
  await click(named(page, "lr0.3-w32-s0"));
  await click(page.getByRole("button", { name: "Compare", exact: true }));
  await page.getByRole("region", { name: "Configuration side by side" }).getByRole("row", { name: /optimizer\.lr.*0\.1.*0\.3/ }).waitFor();
});

task("with which settings and code a run was started", `?q=${encodeURIComponent("name = first")}`, async (page, click) => {
  await click(named(page, "first"));
  await click(tab(page, "Configuration"));
  await page.getByText("git.commit", { exact: true }).or(page.getByText("libtorch", { exact: true })).first().waitFor();
  await page.getByText("lr", { exact: true }).waitFor();
});

task("where the best checkpoint is", "", async (page, click) => {
  await click(page.getByRole("link", { name: "Artifacts", exact: true }));
  const model = page.locator("section.card").filter({ has: page.getByRole("heading", { name: /^first-model/ }) });
  await model.locator(".version").filter({ hasText: "best" }).getByRole("link", { name: trained }).waitFor();
});

task("what the model generated", `?q=${encodeURIComponent("name = fails")}`, async (page, click) => {
  await click(named(page, "fails"));
  await click(tab(page, /^Media & tables/));
  await page.getByRole("cell", { name: "upon a time" }).waitFor();
});

task("what the machine was doing: its processor and memory", SWEEP, async (page, click) => {
  await click(named(page, "lr0.3-w32-s0"));
  await click(tab(page, /^Ranks & nodes/));
  await page.getByRole("heading", { name: "System metrics" }).scrollIntoViewIfNeeded(); // charts are drawn near the viewport
  for (const metric of ["system/cpu_percent", "system/memory_bytes"]) await drawn(page, metric).waitFor();
});

task("which runs had alerts, and why", "", async (page, click) => {
  await click(page.getByRole("link", { name: "Alerts", exact: true }));
  await page.getByText("1.0 at step 1").waitFor();
  await page.getByRole("link", { name: "fails" }).waitFor();
});

task("how the seeds of a setting agree", `${SWEEP}&by=config.optimizer.lr`, async (page, click) => {
  await click(page.getByRole("link", { name: "Group charts" }).first());
  await page.getByRole("group", { name: /^Chart of eval\/loss\. median of 6 curves/ }).first().waitFor();
});

