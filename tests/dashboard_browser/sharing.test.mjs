// Several tabs of one browser, shared links, reports, and unusual runs.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { drawn, showView, violations, visit } from "./browser.mjs";
import { directory, end, LOCKSTEP, open, record, run, runs, serve, waitFor } from "./world.mjs";

const CURVES = ["curve-0", "curve-1", "curve-2"];
let address;

const api = async (path, words = {}) => {
  const query = new URLSearchParams(Object.entries(words).flatMap(([key, value]) => [value].flat().map((one) => [key, one])));
  return (await fetch(`${address}/api/${path}?${query}`)).json();
};

before(async () => {
  record("odd");
  record("curves", "5", "300");
  record("charts", "3000", "2");
  address = await serve();
  await waitFor(async () => (await api("runs")).matching === 7, "all runs to be read");
});

after(end);

const onPage = (hash, work, options) => visit(`${address}/#/${hash}`, work, options);
const label = async (page, name) => (await drawn(page, name).waitFor(), drawn(page, name).getAttribute("aria-label"));

/** Opens event streams until the server rejects one. Returns their count, a check for a free one, and a function that closes them. */
async function takeStreams() {
  const stop = new AbortController();
  const isFree = async () => (await fetch(`${address}/api/events`, { signal: stop.signal })).status === 200;
  let count = 0;
  while (await isFree()) count++;
  return { count, isFree, end: () => stop.abort() };
}

test("nine tabs of a browser share one event stream", async () => {
  const first = await open(`${address}/#/`);
  const pages = [first];
  try {
    for (let i = 1; i < 9; i++) {
      const page = await first.context().newPage();
      await page.goto(`${address}/#/${i % 2 ? "run/curve-0" : ""}`);
      pages.push(page);
    }
    for (const page of pages) {
      await page.locator(".runs-row a, .run-head h1").first().waitFor();
      await page.getByTitle("Receiving live updates").waitFor();
    }
    const others = await takeStreams();
    assert.equal(others.count, 31);
    run(LOCKSTEP, "runs", "tag", "curve-0", "+shared", "--dir", runs);
    for (const page of pages) await page.getByText("shared", { exact: true }).first().waitFor();
    assert.deepEqual(pages.flatMap((page) => page.consoleErrors ?? []), []);
    // Headless Chromium never hides a tab, so the test simulates it.
    const setHidden = (page, hidden) => page.evaluate((is) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => is });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
    for (const page of pages.slice(1)) await setHidden(page, true);
    assert.equal(await others.isFree(), false, "one tab is still visible");
    await setHidden(first, true);
    await waitFor(others.isFree, "the stream to be released");
    run(LOCKSTEP, "runs", "tag", "curve-0", "+later", "--dir", runs);
    others.end();
    for (const page of pages) await setHidden(page, false);
    for (const page of pages) await page.getByText("later", { exact: true }).first().waitFor();
  } finally {
    await first.context().close();
  }
});

test("a link shows its recipient the view of its sender", () => onPage("run/curve-0", async (page) => {
  await drawn(page, "train/loss").waitFor();
  await page.getByRole("group", { name: "Horizontal axis" }).getByRole("button", { name: "epoch" }).click();
  await page.getByLabel("Smoothing").fill("0.9");
  await page.getByRole("button", { name: "Log", exact: true }).click();
  await page.getByRole("button", { name: "Pin train/loss" }).click();
  await page.getByRole("button", { name: "Chart size" }).click();
  await page.getByRole("button", { name: "large", exact: true }).click();
  await page.getByRole("heading", { name: "Pinned" }).waitFor();
  const link = page.url();
  const isAsSent = async (other) => {
    await other.getByRole("heading", { name: "Pinned" }).waitFor();
    assert.equal(await other.getByLabel("Smoothing").inputValue(), "0.9");
    assert.equal(await other.getByRole("button", { name: "Log", exact: true }).getAttribute("aria-pressed"), "true");
    assert.equal(await other.getByRole("button", { name: "epoch" }).getAttribute("aria-pressed"), "true");
    assert.ok((await drawn(other, "train/loss").first().boundingBox()).height > 260);
  };
  await onPage(link.split("#/")[1], async (recipient) => {
    await isAsSent(recipient);
    await recipient.getByRole("link", { name: "Configuration" }).click();
    await recipient.getByLabel("Search the configuration").waitFor();
    await recipient.getByRole("link", { name: /Charts/ }).click();
    await isAsSent(recipient);
    assert.equal(await recipient.evaluate(() => localStorage.getItem("lockstep.smoothing")), null, "the preferences of the recipient are unchanged");
  });
  // The settings of the sender apply to URLs without settings; a link with default settings overrides them.
  await page.goto(`${address}/#/run/curve-1`);
  await isAsSent(page);
  await page.goto(`${address}/#/run/curve-1?x=step`);
  await waitFor(async () => (await page.getByLabel("Smoothing").inputValue()) === "0", "the settings of the link");
  assert.equal(await page.getByRole("heading", { name: "Pinned" }).count(), 0);
}));

test("a run with NaN epochs and losses and a bidirectional name that was stopped on request", () => onPage("run/odd-1", async (page) => {
  await page.getByRole("heading", { level: 1, name: "odd \\u202eeman" }).waitFor();
  await page.getByText("stopped on request after step 900 of 1000: seen enough").waitFor();
  await page.locator(".facts div").filter({ hasText: "Epoch" }).getByText("NaN").waitFor();
  await page.locator(".figures li").filter({ hasText: "train/loss" }).getByText("best NaN").waitFor();
  await showView(page, `?cols=epoch,eval/accuracy,config.optimizer.lr,min(train/loss)&sort=-min(train/loss)&q=${encodeURIComponent("has train/loss")}`);
  const row = page.locator(".runs-row").filter({ has: page.getByRole("link", { name: /^odd/ }) });
  await row.getByRole("cell").nth(5).waitFor();
  assert.deepEqual((await row.getByRole("cell").allTextContents()).slice(2), ["NaN", "0.9000", "0.02207", "NaN"]);
  assert.match(await page.locator(".runs-row").last().textContent(), /odd/, "NaN is not the largest loss");
  await page.getByRole("columnheader", { name: "min(train/loss)" }).getByRole("button").click();
  await page.locator('[aria-sort="ascending"]').waitFor();
  await waitFor(async () => /odd/.test(await page.locator(".runs-row").last().textContent()), "NaN to be last in ascending order too: it is not the smallest loss");
}));

test("the output of a rank on another node is shown from the event log", () => onPage("run/odd-1/console", async (page) => {
  await page.getByText("far line 1999", { exact: true }).waitFor();
  await page.getByText("Recorded in the event log of node 1").waitFor();
  await page.getByLabel("Search the console").fill("line 77");
  await page.getByText("11 lines").waitFor();
}));

test("with very many metrics, the page shows the first charts, and more on request", () => onPage("run/charts-1", async (page) => {
  await page.getByText("Showing the first 1,000 of 3,000 charts").waitFor();
  assert.equal(await page.locator(".chart-card").count(), 1000);
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByText("Showing the first 2,000 of 3,000 charts").waitFor();
  await page.getByLabel("Search metrics").fill("metric_2999");
  await waitFor(async () => (await page.locator(".chart-card").count()) === 1, "the matching chart");
}));

test("arrow keys on a chart move from value to value", () => onPage("run/odd-1?m=accuracy", async (page) => {
  const chart = drawn(page, "eval/accuracy");
  await chart.locator("canvas").waitFor(); // the key handlers are attached with it
  await chart.focus();
  const seen = [];
  for (const key of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft"]) {
    await page.keyboard.press(key);
    seen.push(await chart.locator(".tip-x").textContent());
  }
  assert.deepEqual(seen, ["step 0", "step 100", "step 200", "step 100", "step 0", "step 0"]);
}));

test("an error in one part of the page leaves the rest usable", async () => {
  const page = await open(`${address}/#/`);
  // Like the response of a server of another version.
  await page.route("**/api/runs/curve-0", async (route) => {
    const response = await route.fetch();
    const { config, ...rest } = await response.json();
    await route.fulfill({ response, json: { ...rest, command: null } });
  });
  await showView(page, "run/curve-0/charts");
  await page.getByRole("link", { name: "Configuration" }).click();
  await page.getByRole("alert").getByText("Something went wrong").waitFor();
  await page.getByRole("link", { name: /Alerts/ }).last().click();
  await page.getByText("No alerts").waitFor();
  await page.getByRole("link", { name: "Lockstep, all runs" }).click();
  await page.getByRole("link", { name: "curve-1" }).waitFor();
  await page.context().close();
});

test("all matching runs are selected with one click", () => onPage(`?q=${encodeURIComponent("name ~ curve")}`, async (page) => {
  const all = page.getByRole("checkbox", { name: "Select all runs" });
  await page.getByLabel("Select curve-0").click();
  await page.getByText("1 selected").waitFor();
  assert.equal(await all.evaluate((box) => box.indeterminate), true);
  assert.equal(await page.getByRole("link", { name: "Open" }).getAttribute("aria-disabled"), null);
  await all.click();
  await page.getByText("5 selected").waitFor();
  assert.ok(await all.isChecked());
  await all.click();
  await page.getByText("selected", { exact: false }).first().waitFor({ state: "detached" });
}));

test("a chart's CSV is named after the run and the metric", () => onPage("run/curve-0", async (page) => {
  await drawn(page, "train/loss").waitFor();
  await page.getByRole("button", { name: "More options for train/loss" }).click();
  const [csv] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as CSV" }).click()]);
  assert.equal(csv.suggestedFilename(), "curve-0_train_loss.csv");
}));

test("axe finds no violations in differences and the column picker", () => onPage(`compare?runs=${CURVES}&tab=config`, async (page) => {
  await page.getByLabel("Show identical values").check();
  await page.getByRole("rowheader", { name: "optimizer.lr" }).waitFor();
  assert.deepEqual(await violations(page), []);
  await showView(page, "");
  await page.getByRole("button", { name: "Columns" }).click();
  await page.getByLabel("Search columns").waitFor();
  assert.deepEqual(await violations(page), []);
}));

function report(...ids) {
  const file = join(directory, `${ids.join("-")}.html`);
  return [file, () => fetch(`${address}/api/report.html?${ids.map((id) => `run=${id}`).join("&")}`).then((response) => response.text())];
}

async function openReport(...ids) {
  const { writeFileSync } = await import("node:fs");
  const [file, text] = report(...ids);
  writeFileSync(file, await text());
  return open(`file://${file}`);
}

test("a report of one run opens on the run and prints all of its charts", async () => {
  const page = await openReport("curve-0");
  await page.getByRole("heading", { level: 1, name: "curve-0" }).waitFor();
  await drawn(page, "train/loss").waitFor();
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.locator(".bar").isVisible(), false);
  const { width, height } = await page.locator(".drawing canvas").first().boundingBox();
  assert.ok(width > 200 && height > 80, `${width} x ${height}`);
  assert.equal(await page.locator(".drawing canvas").count(), await page.locator(".drawing").count());
  const pdf = await page.pdf({ format: "A4" });
  assert.ok(pdf.length > 10_000);
  assert.deepEqual(page.consoleErrors, []);
  await page.context().close();
});

test("a report of a comparison has bands, selected runs, and a table that filters and sorts", async () => {
  const page = await openReport(...CURVES);
  await page.getByRole("heading", { name: "3 runs" }).waitFor();
  for (const x of ["step", "epoch", "time"]) {
    const view = (ids) => `compare?runs=${ids}&view=group&x=${x}`;
    for (const ids of [CURVES, CURVES.slice(0, 2)]) {
      await showView(page, view(ids));
      await page.getByRole("heading", { name: `${ids.length} runs` }).waitFor();
      await page.getByRole("group", { name: new RegExp(`median of ${2 * ids.length} curves`) }).waitFor();
      await onPage(view(ids), async (live) => {
        await live.getByRole("group", { name: new RegExp(`median of ${2 * ids.length} curves`) }).waitFor();
        assert.equal(await label(page, "train/loss"), await label(live, "train/loss"), `${ids.length} runs over ${x}`);
      });
    }
  }
  await showView(page, `compare?runs=${CURVES.slice(0, 2)}&tab=config`);
  await page.getByRole("columnheader", { name: "curve-1" }).first().waitFor();
  assert.equal(await page.getByRole("columnheader", { name: "curve-2" }).count(), 0);

  const columns = "train/loss,min(train/loss),config.optimizer.lr,config.data.batch_size,epoch,tag";
  const others = (await api("runs")).runs.filter((one) => !CURVES.includes(one.id)).map((one) => ` and id != ${one.id}`).join("");
  const names = (on) => on.locator(".runs-row .name a").allTextContents();
  for (const [q, sort] of [
    ["state = failed", "-created"], ["not state = failed", "name"], ["min(train/loss) > 0.3 or tag = baseline", "min(train/loss)"], ["train/loss = nan", "-name"],
    ["config.optimizer.lr in (0.1, 0.05)", "-config.optimizer.lr"], ["config.optimizer.nesterov = true", "name"], ["name = curve-* and not (name ~ 1)", "-train/loss"],
    ["has group", "train/loss"], ["note", "-config.data.batch_size"], ["exit >= 78", "name"], ["created < 1970-01-02", "created"], ["created < 7d", "created"],
    ["name == \"curve-*\" or name == curve-1", "name"], ["duration > 1h", "-train/loss"], ["config.data.name != \"mnist\"", "name"],
  ]) {
    const truth = (await api("runs", { filter: `(${q})${others}`, sort })).runs.map((one) => one.name);
    await showView(page, `?${new URLSearchParams({ q, sort, cols: columns })}`);
    await waitFor(async () => JSON.stringify(await names(page)) === JSON.stringify(truth), `${q} by ${sort} to be ${truth}`, 10);
  }
  const query = new URLSearchParams({ q: "name ~ curve and id != curve-3 and id != curve-4", sort: "name", cols: columns });
  const rows = async (on) => {
    await waitFor(async () => (await names(on)).join() === CURVES.join(), "the three runs");
    return on.locator(".runs-row").allTextContents();
  };
  await showView(page, `?${query}`);
  await onPage(`?${query}`, async (live) => assert.deepEqual(await rows(page), (await rows(live)).map((text) => text)));
  await page.getByLabel("Filter runs").fill("state = ");
  await page.locator(".filter-error", { hasText: "expected a value, found the end" }).waitFor();
  assert.deepEqual(page.consoleErrors, []);
  await page.context().close();
});
