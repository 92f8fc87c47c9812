// The appearance of the dashboard on a desktop, on a phone and at 200 % zoom.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { drawn, showView, violations, visit } from "./browser.mjs";
import { end, record, serve, sweep, train, waitFor } from "./world.mjs";

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true };
const ZOOMED = { viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 };
const DEVICES = [["on a desktop", {}], ["on a phone", PHONE], ["at 200 %", ZOOMED]];
const SWEEP = encodeURIComponent("group = sweep");
const ids = (count) => Array.from({ length: count }, (_, i) => `sweep-${String(i).padStart(2, "0")}`).join(",");
let address;
let first;

before(async () => {
  record("sweep", "30", "120");
  record("gallery");
  record("ranks", "16", "100");
  first = train("first");
  sweep("rates");
  address = await serve();
  await waitFor(async () => (await (await fetch(`${address}/api/runs`)).json()).matching === 33, "all runs");
});

after(end);

const onPage = (hash, work, options) => visit(`${address}/#/${hash}`, work, options);
const texts = (locator) => locator.allTextContents();

test("thirty compared runs have distinct styles, and can be colored by a configuration key", () => onPage(`compare?runs=${ids(30)}`, async (page) => {
  const list = page.getByRole("complementary", { name: "Compared runs" });
  await list.getByRole("link", { name: "lr0.01-w32-s0" }).waitFor();
  const styles = () => list.locator(".lines line").evaluateAll((lines) => lines.map((line) => `${line.getAttribute("stroke")} ${line.getAttribute("stroke-dasharray")}`));
  assert.equal(new Set(await styles()).size, 30);
  assert.equal(new Set((await styles()).slice(0, 10).map((style) => style.split(" ")[0])).size, 10, "one hue each");
  assert.deepEqual(await texts(list.getByLabel("Color by").locator("option")), ["run", "model.hidden", "optimizer.lr", "run.seed"]);
  await list.getByLabel("Color by").selectOption("optimizer.lr");
  await list.getByLabel("optimizer.lr from 0.01 to 1").waitFor();
  await waitFor(async () => new Set(await styles()).size === 5, "one color for each of five learning rates");
  assert.match(page.url(), /color=optimizer\.lr/, "the URL contains it");
}));

test("the list of lines hides and highlights lines, and shows the values at the pointer", () => onPage(`compare?runs=${ids(5)}&m=eval/loss`, async (page) => {
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
  await waitFor(async () => (await pixels()) !== before, "the line to be highlighted");
  await page.mouse.move(0, 0);
  await waitFor(async () => (await pixels()) === before, "the highlight to be removed");
  await list.getByLabel("Show lr0.01-w32-s0").uncheck();
  await list.getByText("4 of 5 runs").waitFor();
  await waitFor(async () => !/lr0\.01-w32-s0/.test(await chart.getAttribute("aria-label")), "the line to be hidden");
  assert.match(page.url(), /off=sweep-00/, "the URL contains it");
  await page.getByRole("button", { name: "Enlarge eval/loss" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Show lr0.3-w32-s0").waitFor();
  assert.equal(await dialog.getByLabel("Show lr0.01-w32-s0").isChecked(), false);
}));

test("group rows show mean, minimum and maximum of their runs, and the best group is marked", () => onPage(`?by=config.optimizer.lr&q=${SWEEP}`, async (page) => {
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

test("the table shows the configuration keys in which the runs differ, with equal decimals", () => onPage(`?q=${SWEEP}`, async (page) => {
  for (const key of ["optimizer.lr", "model.hidden", "run.seed"]) await page.getByRole("columnheader", { name: key }).waitFor();
  assert.equal(await page.getByRole("columnheader", { name: "optimizer.name" }).count(), 0, "equal keys are hidden");
  await page.locator(".runs-row .name a").first().waitFor();
  const heads = await texts(page.getByRole("columnheader"));
  const cells = async (name) => texts(page.locator(`.runs-row > :nth-child(${heads.indexOf(name) + 1})`));
  assert.ok((await cells("optimizer.lr")).every((text) => /^\d\.\d\d$/.test(text)), (await cells("optimizer.lr")).join());
  assert.ok((await cells("eval/accuracy")).every((text) => /^0\.\d{4}$/.test(text)), (await cells("eval/accuracy")).join());
}));

test("evaluation results come first in a comparison, and system metrics have no best value", () => onPage(`compare?runs=${ids(3)}&tab=results`, async (page) => {
  await page.getByRole("rowheader").first().waitFor();
  const names = await texts(page.getByRole("rowheader"));
  assert.deepEqual(names.slice(0, 4), ["eval/accuracy", "eval/loss", "test/accuracy", "train/loss"]);
  assert.match(names.at(-1), /^system\//);
  assert.equal(await page.locator("tr:has(.best) th").filter({ hasText: "eval/accuracy" }).count(), 1);
  assert.equal(await page.locator("tr:has(.best) th").filter({ hasText: "system/" }).count(), 0);
}));

test("the header of a run is small and sticky, and only Charts has figures", () => onPage(`run/${first}`, async (page) => {
  await drawn(page, "train/loss").waitFor();
  await page.locator(".figures .spark path").first().waitFor();
  const head = page.locator(".run-head");
  assert.ok((await head.boundingBox()).height <= 48);
  await page.evaluate(() => scrollTo(0, 1500));
  await waitFor(async () => (await head.boundingBox()).y >= 0 && (await head.boundingBox()).y < 60, "the header to stick");
  await head.getByRole("link", { name: "Console" }).click();
  await page.getByRole("button", { name: "Jump to the end" }).waitFor();
  assert.equal(await page.locator(".figures").count(), 0);
}));

test("constant metrics are listed instead of plotted", () => onPage("run/sweep-03", async (page) => {
  const line = page.getByText("4 constant metrics");
  await line.waitFor();
  assert.equal(await page.getByRole("group", { name: /^Chart of train\/lr/ }).count(), 0);
  await line.click();
  assert.deepEqual(await texts(page.locator(".constants dt")), ["test/accuracy", "train/lr", "system/disk.read_bytes_per_s", "system/swap_bytes"]);
  assert.equal((await texts(page.locator(".constants dd"))).at(-1), "0 B");
}));

/** Intercepts responses so that the run appears to be running, with a planned length. */
async function asRunning(page, planned) {
  const change = (run) => (run.id === first ? { ...run, state: "running", step: 1200, epoch: 1.2, created: Date.now() / 1000 - 600, updated: Date.now() / 1000, planned } : run);
  await page.route(/\/api\/runs(\/[^/?]+)?(\?|$)/, async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    await route.fulfill({ response, json: json.runs ? { ...json, runs: json.runs.map(change) } : change(json) });
  });
}

test("a running run shows its progress and remaining time", () => onPage("alerts", async (page) => {
  await asRunning(page, { steps: 3000, epochs: 3 });
  await showView(page, `run/${first}`);
  assert.equal(await page.locator(".run-head").getByRole("progressbar").getAttribute("aria-valuetext"), "step 1,200 of 3,000");
  await page.locator(".facts").getByText("of 3,000 · 40 %").waitFor();
  await page.locator(".facts").getByText("of 3", { exact: true }).waitFor();
  await page.locator(".facts").getByText(/^about 1[45] min$/).waitFor();
  await showView(page, `?q=${encodeURIComponent("name = first")}`);
  const cell = page.locator(".stepcell");
  await cell.getByText("1,200 / 3,000").waitFor();
  await cell.getByText(/^1[45] min left · epoch 1\.2\/3$/).waitFor();
  assert.equal(await cell.getByRole("progressbar").getAttribute("aria-valuenow"), "40");
}));

test("a running run without a planned length shows only its step", () => onPage("alerts", async (page) => {
  await asRunning(page, null);
  await showView(page, `run/${first}`);
  await page.locator(".facts").getByText("1,200", { exact: true }).waitFor();
  assert.equal(await page.getByRole("progressbar").count(), 0);
  assert.equal(await page.locator(".facts").getByText("Remaining").count(), 0);
  await showView(page, `?q=${encodeURIComponent("name = first")}`);
  await page.getByRole("cell", { name: "1,200", exact: true }).waitFor();
}));

test("the band of many runs is their median and 10th to 90th percentile", () => onPage(`compare?runs=${ids(30)}&view=group&m=eval/loss`, async (page) => {
  const chart = page.getByRole("group", { name: /^Chart of eval\/loss\. median of 30 curves/ });
  await chart.locator("canvas").waitFor();
  await chart.focus();
  await page.keyboard.press("ArrowLeft");
  const { bands: [band] } = await (await fetch(`${address}/api/band?filter=${SWEEP}&metric=eval/loss`)).json();
  const last = (values) => values.at(-1).toPrecision(4).replace(/0+$/, "");
  const tip = chart.locator(".tip");
  await tip.getByText("10th–90th percentile").waitFor();
  assert.equal(await tip.locator(".tip-value").first().textContent(), last(band.median));
  assert.equal(await tip.locator(".tip-value").nth(1).textContent(), `${last(band.p10)} – ${last(band.p90)}`);
}));

/** The content of the file to which a chart is saved. */
async function saved(page, chart, what) {
  await page.getByRole("button", { name: `More options for ${chart}` }).click();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: what }).click()]);
  return readFileSync(await file.path());
}

test("a chart is saved as PNG at twice the resolution of the page, and as SVG", () => onPage(`compare?runs=${ids(3)}&m=eval/loss`, async (page) => {
  await page.getByRole("group", { name: /^Chart of eval\/loss\..*lr0\.01-w32-s0/ }).waitFor();
  const svg = (await saved(page, "eval/loss", "Save as SVG")).toString();
  const problems = await page.evaluate((text) => new DOMParser().parseFromString(text, "image/svg+xml").querySelectorAll("parsererror").length, svg);
  assert.equal(problems, 0);
  for (const part of ["eval/loss", "lr0.01-w32-s0", "lr0.1-w32-s0", "step"]) assert.ok(svg.includes(`>${part}<`), part);
  const width = Number(/width="(\d+)"/.exec(svg)[1]);
  const png = await saved(page, "eval/loss", "Save as PNG");
  assert.equal(png.readUInt32BE(16), 2 * width);
}));

test("the x-axis has a name; system metrics, which have no steps, are plotted over time", () => onPage("run/sweep-03?axis=step", async (page) => {
  for (const [chart, name] of [["eval/loss", "step"], ["system/memory_bytes", "time"]]) {
    await drawn(page, chart).waitFor();
    const svg = (await saved(page, chart, "Save as SVG")).toString();
    assert.ok(new RegExp(`text-anchor="middle"[^>]*>${name}`).test(svg), `${chart}: ${svg.match(/>[^<>]+</g).join(" ")}`);
  }
}));

test("figures on a phone are one column without gaps", () => onPage("run/sweep-03", async (page) => {
  await page.locator(".figures").waitFor();
  const frame = await page.locator(".figures").boundingBox();
  const boxes = await page.locator(".figures li").evaluateAll((all) => all.map((el) => el.getBoundingClientRect()).map(({ x, width }) => [x, width]));
  assert.ok(boxes.length >= 3, String(boxes.length));
  for (const [x, width] of boxes) assert.ok(Math.abs(x - frame.x) <= 2 && Math.abs(width - frame.width) <= 2, JSON.stringify([frame, boxes]));
}, PHONE));

test("the icons of comparing and sorting are distinct", () => onPage(`?sel=${ids(2)}&sort=name`, async (page) => {
  const icon = (where) => where.locator("svg path").first().getAttribute("d");
  const compare = await icon(page.getByRole("link", { name: "Compare", exact: true }).last());
  const head = page.getByRole("columnheader").filter({ has: page.locator("svg") });
  const up = await icon(head);
  await head.getByRole("button").click();
  await waitFor(async () => (await icon(head)) !== up, "the other order");
  assert.equal(new Set([compare, up, await icon(head)]).size, 3);
}));

test("on a phone, chart options are in one panel, and the names of results are sticky", () => onPage(`compare?runs=${ids(5)}`, async (page) => {
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
  "", `?by=config.optimizer.lr&q=${SWEEP}`, `?sel=${ids(2)}`, `run/${first}`, "run/ranks-1", "run/ranks-1?ranks=all", "run/sweep-03", `run/${first}/ranks`, `run/${first}/config`, `run/${first}/console`, `run/${first}/artifacts`, "run/gallery-1/media", "run/gallery-1/media?hist=ridges&scores=pr", "run/gallery-1/media?scores=confusion",
  "run/gallery-1/alerts", "run/nothing", `compare?runs=${ids(5)}`, `compare?runs=${ids(30)}`, `compare?runs=${ids(30)}&view=group`, `compare?runs=${ids(5)}&tab=config`, `compare?runs=${first},gallery-1&tab=config`, `compare?runs=${first},gallery-1&tab=results`, `compare?runs=${ids(5)}&tab=results`, `group?q=${SWEEP}`, `group?q=${SWEEP}&view=each`, "compare", `compare?runs=${ids(2)}&tab=both`,
  `analyze?q=${SWEEP}`, `analyze?q=${SWEEP}&brush=${encodeURIComponent('{"config.optimizer.lr":[0.02,0.2]}')}`, `analyze?runs=${ids(5)}`, `analyze?q=${SWEEP}&surface=cells&sx=config.optimizer.lr&sy=config.model.hidden&sc=metric.eval/loss`, `analyze?q=${SWEEP}&surface=smooth&sx=config.optimizer.lr&sy=config.model.hidden&sc=metric.eval/loss`, "analyze?q=name+%3D+nothing", `run/${first}?exprs=train%2Floss+-+eval%2Floss&hide=eval%2Floss&x=step`, "sweeps", "sweeps/rates", "artifacts", "alerts", "nowhere",
];

for (const [device, options] of DEVICES.slice(1)) {
  test(`no view is wider than its window ${device}`, () => onPage("", async (page) => {
    for (const view of [...VIEWS(), `?q=${encodeURIComponent("name = = 1")}`]) {
      await showView(page, view);
      // Also elements that overflow without being scrollable, which would be cut off.
      const beyond = () => page.evaluate(() => [...document.querySelectorAll("main *, header *")].filter((el) => {
        const box = el.getBoundingClientRect();
        const isScrolled = (up) => up && up !== document.body && (getComputedStyle(up).overflowX !== "visible" || isScrolled(up.parentElement));
        return box.width > 0 && box.right > innerWidth + 1 && !isScrolled(el.parentElement);
      }).map((el) => el.outerHTML.slice(0, 120)));
      assert.deepEqual(await beyond(), [], view);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), view);
    }
    page.consoleErrors = page.consoleErrors.filter((text) => !/status of 40[04]/.test(text)); // the missing run and the invalid filter
  }, options));
}

test("tabs that do not fit are faded at the cut", () => onPage("run/gallery-1", async (page) => {
  const tabs = page.getByRole("navigation", { name: "Run tabs" });
  const cut = (what) => waitFor(async () => (await tabs.getAttribute("data-cut")) === what, `tabs to be cut at: ${what}`);
  await cut("end");
  await tabs.evaluate((box) => (box.scrollLeft = 1000));
  await cut("start");
  await page.setViewportSize({ width: 1440, height: 900 });
  await cut("");
}, PHONE));

test("figures show the latest and the best value with equal decimals, and are not cut off", () => onPage("run/sweep-03", async (page) => {
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

test("an invalid filter shows an error that covers nothing", () => onPage(`?q=${encodeURIComponent("name = none")}`, async (page) => {
  await page.getByRole("heading", { name: "No matching runs" }).waitFor();
  await page.getByLabel("Filter runs").fill("name = =");
  await page.getByRole("heading", { name: "Invalid filter" }).waitFor();
  await page.keyboard.press("Escape");
  const error = await page.locator(".filter-error").boundingBox();
  for (const other of [page.getByLabel("Group by"), page.locator(".empty")]) {
    const box = await other.boundingBox();
    assert.ok(box.y >= error.y + error.height || box.y + box.height <= error.y || box.x >= error.x + error.width, JSON.stringify([error, box]));
  }
  page.consoleErrors = page.consoleErrors.filter((text) => !/status of 400/.test(text));
}, PHONE));

test("the step of a run with a planned length is not cut off, even if the run is not running", () => onPage("alerts", async (page) => {
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

// The other rules do not depend on colors.
for (const [colorScheme, rules] of [["light", {}], ["dark", { runOnly: ["color-contrast"] }]]) {
  for (const [device, options] of DEVICES) {
    test(`axe finds no violations ${device} (${colorScheme})`, () => onPage("", async (page) => {
      const check = async (where) => assert.deepEqual(await violations(page, rules), [], where);
      for (const view of VIEWS()) {
        await showView(page, view);
        await check(view);
      }
      page.consoleErrors = page.consoleErrors.filter((text) => !/status of 404/.test(text)); // the missing run
      await showView(page, `compare?runs=${ids(5)}&m=eval/loss`);
      await page.getByRole("button", { name: "Enlarge eval/loss" }).click();
      await page.getByRole("dialog").getByLabel("Show lr0.1-w32-s0").waitFor();
      await check("an enlarged chart");
      await page.keyboard.press("Escape");
      if (options.viewport) await page.getByRole("button", { name: "Chart options" }).click();
      else await page.getByRole("button", { name: "Chart size" }).click();
      await check("the chart options");
      await page.keyboard.press("Escape");
      await showView(page, "");
      await page.getByRole("button", { name: "Columns" }).click();
      await check("the column picker");
      await page.keyboard.press("Escape");
      await showView(page, `analyze?q=${SWEEP}`);
      await page.getByRole("button", { name: "Axis optimizer.lr" }).click();
      await check("the menu of an axis");
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Saved views" }).click();
      await check("the saved views");
    }, { colorScheme, ...options }));
  }
}
