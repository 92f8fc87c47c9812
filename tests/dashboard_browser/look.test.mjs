// How the dashboard looks: what differs is seen, what is alike is not, on a screen, on a telephone and at 200 %.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { drawn, showView, visit } from "./browser.mjs";
import { end, record, serve, train, waitFor } from "./world.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true };
const ZOOMED = { viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 };
const DEVICES = [["on a screen", {}], ["on a telephone", PHONE], ["at 200 %", ZOOMED]];
const SWEEP = encodeURIComponent("group = sweep");
const ids = (count) => Array.from({ length: count }, (_, i) => `sweep-${String(i).padStart(2, "0")}`).join(",");
let address;
let first;

before(async () => {
  record("sweep", "30", "120");
  record("gallery");
  record("ranks", "16", "100");
  first = train("first");
  address = await serve();
  await waitFor(async () => (await (await fetch(`${address}/api/runs`)).json()).matching === 33, "all runs");
});

after(end);

const onPage = (hash, work, options) => visit(`${address}/#/${hash}`, work, options);
const texts = (locator) => locator.allTextContents();

test("thirty compared runs all look different, and can be colored by a key of the configuration", () => onPage(`compare?runs=${ids(30)}`, async (page) => {
  const list = page.getByRole("complementary", { name: "Compared runs" });
  await list.getByRole("link", { name: "lr0.01-w32-s0" }).waitFor();
  const looks = () => list.locator(".lines line").evaluateAll((lines) => lines.map((line) => `${line.getAttribute("stroke")} ${line.getAttribute("stroke-dasharray")}`));
  assert.equal(new Set(await looks()).size, 30);
  assert.equal(new Set((await looks()).slice(0, 10).map((look) => look.split(" ")[0])).size, 10, "a hue each");
  assert.deepEqual(await texts(list.getByLabel("Color by").locator("option")), ["run", "model.hidden", "optimizer.lr", "run.seed"]);
  await list.getByLabel("Color by").selectOption("optimizer.lr");
  await list.getByLabel("optimizer.lr from 0.01 to 1").waitFor();
  await waitFor(async () => new Set(await looks()).size === 5, "a color for each of five rates");
  assert.match(page.url(), /color=optimizer\.lr/, "the address holds it");
}));

test("the list of lines hides one, highlights one, and has the values at the pointer", () => onPage(`compare?runs=${ids(5)}&m=eval/loss`, async (page) => {
  const chart = drawn(page, "eval/loss");
  await page.getByRole("group", { name: /^Chart of eval\/loss\..*lr0\.01-w32-s0/ }).waitFor();
  const list = page.getByRole("complementary", { name: "Compared runs" });
  const box = await chart.locator(".u-over").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await list.locator(".line-list-at").getByText(/^loss, step \d+$/).waitFor();
  const values = await texts(list.locator(".line-value"));
  assert.equal(values.length, 5);
  assert.ok(values.every((value) => Number(value) > 0), values.join());
  const pixels = () => chart.locator("canvas").evaluate((canvas) => canvas.toDataURL());
  await page.mouse.move(0, 0);
  const before = await pixels();
  await list.getByText("lr0.1-w32-s0").hover();
  await waitFor(async () => (await pixels()) !== before, "the line to be brought forward");
  await page.mouse.move(0, 0);
  await waitFor(async () => (await pixels()) === before, "all lines to be alike again");
  await list.getByLabel("Show lr0.01-w32-s0").uncheck();
  await list.getByText("4 of 5 runs").waitFor();
  await waitFor(async () => !/lr0\.01-w32-s0/.test(await chart.getAttribute("aria-label")), "the line to go");
  assert.match(page.url(), /off=sweep-00/, "the address holds it");
  await page.getByRole("button", { name: "Enlarge eval/loss" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Show lr0.3-w32-s0").waitFor();
  assert.equal(await dialog.getByLabel("Show lr0.01-w32-s0").isChecked(), false);
}));

test("group rows have the mean, the smallest and the largest of their runs, and the best is marked", () => onPage(`?by=config.optimizer.lr&q=${SWEEP}`, async (page) => {
  await page.locator(".grouphead").first().waitFor();
  const { groups } = await (await fetch(`${address}/api/groups?by=config.optimizer.lr&filter=${SWEEP}&column=metric.eval/accuracy`)).json();
  const column = (await texts(page.getByRole("columnheader"))).indexOf("eval/accuracy");
  assert.ok(column > 0);
  for (const { value, values } of groups) {
    const { mean, min, max } = values["metric.eval/accuracy"];
    const row = page.locator(".runs-row.grouped").filter({ has: page.getByText(value.toFixed(2), { exact: true }) });
    await row.locator(".groupcell").filter({ hasText: mean.toFixed(4) }).getByText(`${min.toFixed(4)} – ${max.toFixed(4)}`).waitFor();
  }
  const best = groups.reduce((most, now) => (now.values["metric.eval/accuracy"].mean > most.values["metric.eval/accuracy"].mean ? now : most));
  const marked = page.locator(".runs-row.grouped").filter({ has: page.getByText(best.value.toFixed(2), { exact: true }) }).locator(".groupcell.best").first();
  await marked.getByText(best.values["metric.eval/accuracy"].mean.toFixed(4)).waitFor();
}));

test("the table shows the configuration in which the runs differ, with equal decimals", () => onPage(`?q=${SWEEP}`, async (page) => {
  for (const key of ["optimizer.lr", "model.hidden", "run.seed"]) await page.getByRole("columnheader", { name: key }).waitFor();
  assert.equal(await page.getByRole("columnheader", { name: "optimizer.name" }).count(), 0, "what is the same is not shown");
  await page.locator(".runs-row .name a").first().waitFor();
  const heads = await texts(page.getByRole("columnheader"));
  const cells = async (name) => texts(page.locator(`.runs-row > :nth-child(${heads.indexOf(name) + 1})`));
  assert.ok((await cells("optimizer.lr")).every((text) => /^\d\.\d\d$/.test(text)), (await cells("optimizer.lr")).join());
  assert.ok((await cells("eval/accuracy")).every((text) => /^0\.\d{4}$/.test(text)), (await cells("eval/accuracy")).join());
}));

test("results come first in a comparison, and no metric of the machine is the best", () => onPage(`compare?runs=${ids(3)}&tab=results`, async (page) => {
  await page.getByRole("rowheader").first().waitFor();
  const names = await texts(page.getByRole("rowheader"));
  assert.deepEqual(names.slice(0, 4), ["eval/accuracy", "eval/loss", "test/accuracy", "train/loss"]);
  assert.match(names.at(-1), /^system\//);
  assert.equal(await page.locator("tr:has(.best) th").filter({ hasText: "eval/accuracy" }).count(), 1);
  assert.equal(await page.locator("tr:has(.best) th").filter({ hasText: "system/" }).count(), 0);
}));

test("the head of a run is small and stays, and figures are on Charts only", () => onPage(`run/${first}`, async (page) => {
  await drawn(page, "train/loss").waitFor();
  await page.locator(".figures .spark path").first().waitFor();
  const head = page.locator(".run-head");
  assert.ok((await head.boundingBox()).height <= 48);
  await page.evaluate(() => scrollTo(0, 1500));
  await waitFor(async () => (await head.boundingBox()).y >= 0 && (await head.boundingBox()).y < 60, "the head to stick");
  await head.getByRole("link", { name: "Console" }).click();
  await page.getByRole("button", { name: "Jump to the end" }).waitFor();
  assert.equal(await page.locator(".figures").count(), 0);
}));

test("metrics that never change are one line", () => onPage("run/sweep-03", async (page) => {
  const line = page.getByText("4 metrics that never change");
  await line.waitFor();
  assert.equal(await page.getByRole("group", { name: /^Chart of train\/lr/ }).count(), 0);
  await line.click();
  assert.deepEqual(await texts(page.locator(".constants dt")), ["test/accuracy", "train/lr", "system/disk.read_bytes_per_s", "system/swap_bytes"]);
  assert.equal((await texts(page.locator(".constants dd"))).at(-1), "0 B");
}));

/** As if the run went on, with so many steps planned. */
async function asRunning(page, planned) {
  const change = (run) => (run.id === first ? { ...run, state: "running", step: 1200, epoch: 1.2, created: Date.now() / 1000 - 600, updated: Date.now() / 1000, planned } : run);
  await page.route(/\/api\/runs(\/[^/?]+)?(\?|$)/, async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    await route.fulfill({ response, json: json.runs ? { ...json, runs: json.runs.map(change) } : change(json) });
  });
}

test("a run that goes on shows how far it is and how long it still takes", () => onPage("alerts", async (page) => {
  await asRunning(page, { steps: 3000, epochs: 3 });
  await showView(page, `run/${first}`);
  assert.equal(await page.locator(".run-head").getByRole("progressbar").getAttribute("aria-valuetext"), "step 1,200 of 3,000");
  await page.locator(".facts").getByText("of 3,000 · 40 %").waitFor();
  await page.locator(".facts").getByText("of 3", { exact: true }).waitFor();
  await page.locator(".facts").getByText(/^about 1[45] min$/).waitFor();
  await showView(page, `?q=${encodeURIComponent("name = first")}`);
  const cell = page.locator(".stepcell");
  await cell.getByText("1,200 / 3,000").waitFor();
  await cell.getByText(/^1[45] min left · ep 1\.2\/3$/).waitFor();
  assert.equal(await cell.getByRole("progressbar").getAttribute("aria-valuenow"), "40");
}));

test("without a planned length a run that goes on shows its step alone", () => onPage("alerts", async (page) => {
  await asRunning(page, null);
  await showView(page, `run/${first}`);
  await page.locator(".facts").getByText("1,200", { exact: true }).waitFor();
  assert.equal(await page.getByRole("progressbar").count(), 0);
  assert.equal(await page.locator(".facts").getByText("Left").count(), 0);
  await showView(page, `?q=${encodeURIComponent("name = first")}`);
  await page.getByRole("cell", { name: "1,200", exact: true }).waitFor();
}));

test("the band of many runs is their median and the middle 80 % of them", () => onPage(`compare?runs=${ids(30)}&view=group&m=eval/loss`, async (page) => {
  const chart = page.getByRole("group", { name: /^Chart of eval\/loss\. median of 30 curves/ });
  await chart.locator("canvas").waitFor();
  await chart.focus();
  await page.keyboard.press("ArrowLeft");
  const { bands: [band] } = await (await fetch(`${address}/api/band?filter=${SWEEP}&metric=eval/loss`)).json();
  const last = (values) => values.at(-1).toPrecision(4).replace(/0+$/, "");
  const tip = chart.locator(".tip");
  await tip.getByText("10 to 90 %").waitFor();
  assert.equal(await tip.locator(".tip-value").first().textContent(), last(band.median));
  assert.equal(await tip.locator(".tip-value").nth(1).textContent(), `${last(band.p10)} – ${last(band.p90)}`);
}));

/** The content of the file that a chart is saved in. */
async function saved(page, chart, what) {
  await page.getByRole("button", { name: `More about ${chart}` }).click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: what }).click()]);
  return readFileSync(await file.path());
}

test("a picture of a chart has twice the pixels of the page, and there is one of vectors", () => onPage(`compare?runs=${ids(3)}&m=eval/loss`, async (page) => {
  await page.getByRole("group", { name: /^Chart of eval\/loss\..*lr0\.01-w32-s0/ }).waitFor();
  const svg = (await saved(page, "eval/loss", "Save as SVG")).toString();
  const problems = await page.evaluate((text) => new DOMParser().parseFromString(text, "image/svg+xml").querySelectorAll("parsererror").length, svg);
  assert.equal(problems, 0);
  for (const part of ["eval/loss", "lr0.01-w32-s0", "lr0.1-w32-s0", "step"]) assert.ok(svg.includes(`>${part}<`), part);
  const width = Number(/width="(\d+)"/.exec(svg)[1]);
  const png = await saved(page, "eval/loss", "Save as PNG");
  assert.equal(png.readUInt32BE(16), 2 * width);
}));

test("the axis of a chart has a name: system metrics, which have no steps, are against time", () => onPage("run/sweep-03?axis=step", async (page) => {
  for (const [chart, name] of [["eval/loss", "step"], ["system/memory_bytes", "time"]]) {
    await drawn(page, chart).waitFor();
    const svg = (await saved(page, chart, "Save as SVG")).toString();
    assert.ok(new RegExp(`text-anchor="middle"[^>]*>${name}`).test(svg), `${chart}: ${svg.match(/>[^<>]+</g).join(" ")}`);
  }
}));

test("figures on a telephone are one column, without a hole", () => onPage("run/sweep-03", async (page) => {
  await page.locator(".figures").waitFor();
  const frame = await page.locator(".figures").boundingBox();
  const boxes = await page.locator(".figures li").evaluateAll((all) => all.map((el) => el.getBoundingClientRect()).map(({ x, width }) => [x, width]));
  assert.ok(boxes.length >= 3, String(boxes.length));
  for (const [x, width] of boxes) assert.ok(Math.abs(x - frame.x) <= 2 && Math.abs(width - frame.width) <= 2, JSON.stringify([frame, boxes]));
}, PHONE));

test("the drawings of comparing and of sorting are not alike", () => onPage(`?sel=${ids(2)}&sort=name`, async (page) => {
  const drawing = (where) => where.locator("svg path").first().getAttribute("d");
  const compare = await drawing(page.getByRole("link", { name: "Compare", exact: true }).last());
  const head = page.getByRole("columnheader").filter({ has: page.locator("svg") });
  const up = await drawing(head);
  await head.getByRole("button").click();
  await waitFor(async () => (await drawing(head)) !== up, "the other order");
  assert.equal(new Set([compare, up, await drawing(head)]).size, 3);
}));

test("on a telephone the choices for charts are one sheet, and results keep their names in view", () => onPage(`compare?runs=${ids(5)}`, async (page) => {
  await page.getByText("5 runs and their colors").waitFor();
  assert.equal(await page.getByLabel("Smoothing").count(), 0);
  await page.getByRole("button", { name: "Chart options" }).click();
  await page.getByRole("dialog", { name: "Chart options" }).getByRole("button", { name: "Log", exact: true }).click();
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "Results" }).click();
  const region = page.getByRole("region", { name: "Results side by side" });
  await region.evaluate((box) => (box.scrollLeft = 400));
  const name = await region.getByRole("rowheader", { name: "eval/accuracy" }).boundingBox();
  assert.ok(name.x >= 0 && name.x < 60 && name.width < 160, JSON.stringify(name));
}, PHONE));

const VIEWS = () => [
  "", `?by=config.optimizer.lr&q=${SWEEP}`, `?sel=${ids(2)}`, `run/${first}`, "run/ranks-1", "run/ranks-1?ranks=all", "run/sweep-03", `run/${first}/ranks`, `run/${first}/config`, `run/${first}/console`, `run/${first}/artifacts`, "run/gallery-1/media",
  "run/gallery-1/alerts", "run/nothing", `compare?runs=${ids(5)}`, `compare?runs=${ids(30)}`, `compare?runs=${ids(30)}&view=group`, `compare?runs=${ids(5)}&tab=config`, `compare?runs=${first},gallery-1&tab=config`, `compare?runs=${ids(5)}&tab=results`, `group?q=${SWEEP}`, "compare", "artifacts", "alerts", "nowhere",
];

for (const [device, options] of DEVICES.slice(1)) {
  test(`no view is wider than its window ${device}`, () => onPage("", async (page) => {
    for (const view of [...VIEWS(), `?q=${encodeURIComponent("name = = 1")}`]) {
      await showView(page, view);
      // Also what extends beyond the page without being scrolled to: it would be cut off.
      const beyond = () => page.evaluate(() => [...document.querySelectorAll("main *, header *")].filter((el) => {
        const box = el.getBoundingClientRect();
        const isScrolled = (up) => up && up !== document.body && (getComputedStyle(up).overflowX !== "visible" || isScrolled(up.parentElement));
        return box.width > 0 && box.right > innerWidth + 1 && !isScrolled(el.parentElement);
      }).map((el) => el.outerHTML.slice(0, 120)));
      assert.deepEqual(await beyond(), [], view);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), view);
    }
    page.complaints = page.complaints.filter((text) => !/status of 40[04]/.test(text)); // the run that is not there, the filter that is none
  }, options));
}

test("tabs that do not fit are faded where they are cut off", () => onPage("run/gallery-1", async (page) => {
  const tabs = page.getByRole("navigation", { name: "Parts of the run" });
  const cut = (what) => waitFor(async () => (await tabs.getAttribute("data-cut")) === what, `tabs to be cut at: ${what}`);
  await cut("end");
  await tabs.evaluate((box) => (box.scrollLeft = 1000));
  await cut("start");
  await page.setViewportSize({ width: 1440, height: 900 });
  await cut("");
}, PHONE));

test("figures say the latest and the best in equal decimals, and nothing of them is cut off", () => onPage("run/sweep-03", async (page) => {
  await page.locator(".figures").waitFor();
  for (const width of [1440, 720]) {
    await page.setViewportSize({ width, height: 900 });
    const cut = await page.locator(".figures :is(.figure-name, .figure-value, .figure-more)").evaluateAll((all) => all.filter((el) => el.scrollWidth > el.clientWidth + 1).map((el) => el.textContent));
    assert.deepEqual(cut, [], String(width));
  }
  await page.setViewportSize({ width: 1440, height: 900 });
  const decimals = (text) => /\.(\d+)/.exec(text)?.[1].length;
  const figures = await page.locator(".figure-text").evaluateAll((all) => all.map((el) => [el.querySelector(".figure-value").textContent, el.querySelector(".figure-more").textContent]));
  for (const [last, more] of figures.filter(([, more]) => more.startsWith("best"))) assert.equal(decimals(last), decimals(more), `${last} ${more}`);
}));

test("a filter that cannot be read says so, over nothing", () => onPage(`?q=${encodeURIComponent("name = none")}`, async (page) => {
  await page.getByRole("heading", { name: "No matching runs" }).waitFor();
  await page.getByLabel("Filter runs").fill("name = =");
  await page.getByRole("heading", { name: "This filter cannot be read" }).waitFor();
  await page.keyboard.press("Escape");
  const error = await page.locator(".filter-error").boundingBox();
  for (const other of [page.getByLabel("Group by"), page.locator(".empty")]) {
    const box = await other.boundingBox();
    assert.ok(box.y >= error.y + error.height || box.y + box.height <= error.y || box.x >= error.x + error.width, JSON.stringify([error, box]));
  }
  page.complaints = page.complaints.filter((text) => !/status of 400/.test(text));
}, PHONE));

test("the step of a run with a planned length is not cut off, whether it goes on or not", () => onPage("alerts", async (page) => {
  const change = (run) => (run.id === first ? { ...run, state: "failed", step: 98765, planned: { steps: 1234567, epochs: null } } : run);
  await page.route(/\/api\/runs(\?|$)/, async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    await route.fulfill({ response, json: { ...json, runs: json.runs.map(change) } });
  });
  await showView(page, `?q=${encodeURIComponent("name = first")}`);
  const text = page.locator(".stepcell .ellipsis").first();
  await text.getByText("1,234,567").waitFor();
  assert.deepEqual(await text.evaluate((el) => [el.textContent, el.scrollWidth <= el.clientWidth + 1]), ["98,765 / 1,234,567", true]);
}));

for (const colorScheme of ["light", "dark"]) {
  for (const [device, options] of DEVICES) {
    test(`axe finds nothing to complain about ${device} (${colorScheme})`, () => onPage("", async (page) => {
      await page.evaluate(axe);
      const look = async (where) => {
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 160)} (${n.failureSummary.split("\n").pop().trim()})`).join(" | ")}`), [], where);
      };
      for (const view of VIEWS()) {
        await showView(page, view);
        await look(view);
      }
      page.complaints = page.complaints.filter((text) => !/status of 404/.test(text)); // the run that is not there
      await showView(page, `compare?runs=${ids(5)}&m=eval/loss`);
      await page.getByRole("button", { name: "Enlarge eval/loss" }).click();
      await page.getByRole("dialog").getByLabel("Show lr0.1-w32-s0").waitFor();
      await look("an enlarged chart");
      await page.keyboard.press("Escape");
      if (options.viewport) await page.getByRole("button", { name: "Chart options" }).click();
      else await page.getByRole("button", { name: "Size of charts" }).click();
      await look("the choices for charts");
      await page.keyboard.press("Escape");
      await showView(page, "");
      await page.getByRole("button", { name: "Columns" }).click();
      await look("the choice of columns");
    }, { colorScheme, ...options }));
  }
}
