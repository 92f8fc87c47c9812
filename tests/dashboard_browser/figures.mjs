// Latencies of the page for bench/dashboard.py:
//   node figures.mjs PART ADDRESS ROUNDS
// prints [{row, unit, values}, ...]. Times are measured in the page, from its start or from a user action to the frame that shows
// the result; they do not include the overhead of the driver.
import { brushThrough, close, open, scrollThrough } from "./browser.mjs";

const [part, address, rounds] = [process.argv[2], process.argv[3], Number(process.argv[4])];

/** Milliseconds from the start of the page to a frame after `found` is true. */
async function sinceStart(page, found, argument) {
  const handle = await page.waitForFunction(found, argument, { polling: "raf", timeout: 120000 });
  await handle.dispose();
  return page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => resolve(performance.now()))));
}

/** Installs a listener; the returned function yields the milliseconds from `event` to the frame after attribute `what` of an element changed. */
async function sinceEvent(page, event, selector, what) {
  await page.evaluate(([event, selector, what]) => {
    window.taken = new Promise((resolve) => {
      let begin = 0;
      const now = () => document.querySelector(selector)?.getAttribute(what) ?? document.querySelector(selector)?.textContent;
      const before = now();
      addEventListener(event, () => (begin = performance.now()), { capture: true });
      const check = () => (begin > 0 && now() !== before ? requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now() - begin))) : requestAnimationFrame(check));
      check();
    });
  }, [event, selector, what]);
  return () => page.evaluate(() => window.taken);
}

const isDrawn = (count) => {
  const shown = [...document.querySelectorAll(".drawing")].filter((chart) => chart.getBoundingClientRect().top < innerHeight);
  return shown.length >= count && shown.every((chart) => !chart.matches(".blank") && chart.querySelector("canvas"));
};

async function repeated(hash, work) {
  const values = [];
  for (let i = 0; i < rounds; i++) {
    const page = await open(`${address}/#/${hash}`);
    values.push(await work(page, i));
    await page.context().close();
  }
  return values;
}

const column = (rows, i) => rows.map((row) => row[i]);

async function million() {
  const values = await repeated("run/bench", async (page, i) => {
    const first = await sinceStart(page, isDrawn, 1);
    const box = await page.locator(".drawing").first().boundingBox();
    const zoomed = await sinceEvent(page, "mouseup", ".drawing", "aria-label");
    const from = 0.2 + 0.1 * (i % 4);
    await page.mouse.move(box.x + box.width * from, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * (from + 0.2), box.y + box.height / 2, { steps: 3 });
    await page.mouse.up();
    return [first, await zoomed()];
  });
  return [{ row: "a run of a million points: page opened to first chart", unit: "ms", goal: 1000, values: column(values, 0) },
    { row: "zoom, until the detail is drawn", unit: "ms", goal: 200, values: column(values, 1) }];
}

async function ranks() {
  const values = await repeated("run/bench", (page) => sinceStart(page, isDrawn, 4));
  return [{ row: "the group: page opened to every chart in view drawn", unit: "ms", goal: 2000, values }];
}

async function list() {
  const filters = ["config.optimizer.lr > 0.05", "run-0123", "config.data.batch_size in (1, 2, 4)", "not tag = good and config.optimizer.name = sgd"];
  const values = await repeated("", async (page, i) => {
    const first = await sinceStart(page, () => document.querySelectorAll(".runs-row a").length > 10);
    await page.locator(".live.on").waitFor();
    const filtered = await sinceEvent(page, "input", "h1 + .count");
    await page.getByLabel("Filter runs").fill(filters[i % filters.length]);
    return [first, await filtered()];
  });
  return [{ row: "the table: page opened to rows", unit: "ms", values: column(values, 0) },
    { row: "a filter typed to the table filtered", unit: "ms", goal: 200, values: column(values, 1) }];
}

/** The longest and median frame interval and the longest work of a frame while scrolling through the page. */
async function charts() {
  const values = await repeated("run/charts-1", async (page) => {
    await sinceStart(page, isDrawn, 4);
    const scrolled = await scrollThrough(page);
    return [scrolled.gaps[0], scrolled.gaps[Math.floor(scrolled.gaps.length / 2)], scrolled.work[0] ?? 0, scrolled.gaps.length];
  });
  return [{ row: "200 charts scrolled through: longest time between two frames", unit: "ms", goal: 100, values: column(values, 0) },
    { row: "time between two frames, median", unit: "ms", values: column(values, 1) },
    { row: "longest work for a frame (50 and less count as 0)", unit: "ms", goal: 100, values: column(values, 2) },
    { row: "frames of a scroll", unit: "", values: column(values, 3) }];
}

/** The age of a step when the page shows it; the step number is the time in milliseconds at which it was logged. */
async function live() {
  const page = await open(`${address}/#/run/live`);
  await page.locator(".live.on").waitFor();
  const values = await page.evaluate((wanted) => new Promise((resolve) => {
    const ages = [];
    const step = () => Number([...document.querySelectorAll(".facts div")].find((fact) => fact.textContent.startsWith("Step"))?.querySelector("dd").textContent.replaceAll(",", ""));
    let before = step();
    const check = () => {
      const now = step();
      if (now !== before) ages.push(Date.now() - now);
      before = now;
      if (ages.length === wanted) resolve(ages);
      else requestAnimationFrame(check);
    };
    check();
  }), rounds);
  return [{ row: "a value logged to its step on the page", unit: "ms", goal: 2000, values }];
}

/** From a click in the application to the frame that shows parallel coordinates with all axes, scatter and importance; then brushing. */
async function analysis() {
  const values = [];
  for (let i = 0; i < rounds; i++) {
    const page = await open(`${address}/#/alerts`);
    await page.locator(".live.on").waitFor();
    const axes = Array.from({ length: 20 }, (_, k) => `config.parameters.p${String(k).padStart(2, "0")}`).join(",");
    const shown = await page.evaluate((hash) => new Promise((resolve, reject) => {
      const begin = performance.now();
      setTimeout(() => reject(new Error("the analysis is not drawn within 60 s")), 60000);
      location.hash = hash;
      const isShown = () => document.querySelector(".parallel[data-drawn]") && document.querySelector(".scatter[data-drawn]") && document.querySelector(".importance");
      const check = () => requestAnimationFrame(() => (isShown() ? requestAnimationFrame(() => resolve(performance.now() - begin)) : check()));
      check();
    }), `#/analyze?target=metric.eval/loss&axes=${axes}`);
    await page.waitForTimeout(500);
    const gaps = (await brushThrough(page, 120)).sort((a, b) => a - b);
    values.push([shown, gaps[Math.floor(gaps.length / 2)], gaps[Math.floor(0.95 * gaps.length)]]);
    await page.context().close();
  }
  return [{ row: "1,000 runs with 20 hyperparameters: a click to parallel coordinates, scatter and importance drawn", unit: "ms", goal: 300, values: column(values, 0) },
    { row: "brushing: time between two frames, median", unit: "ms", goal: 20, values: column(values, 1) },
    { row: "brushing: time between two frames, 95th percentile", unit: "ms", values: column(values, 2) }];
}

const PARTS = { million, ranks, list, charts, live, analysis };
try {
  console.log(JSON.stringify(await PARTS[part]()));
} finally {
  await close();
}
