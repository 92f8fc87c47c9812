// Tables with vectors and points as maps: principal components, UMAP, point clouds, saved images and links.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { onCopy, queryOf, showView, violations, visit } from "./browser.mjs";
import { directory, end, python, runs, serve, waitFor } from "./world.mjs";

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

let address;

before(async () => {
  python(VECTORS, runs);
  address = await serve();
  await waitFor(() => matching("id = vectors"), "the run");
});

after(end);

const onPage = (hash, work, options) => visit(`${address}/#/${hash}`, work, options);
const matching = async (filter) => (await (await fetch(`${address}/api/runs?limit=1&filter=${encodeURIComponent(filter)}`)).json()).matching;

const showVectors = (page) => showView(page, "run/vectors/media");

test("a table with vectors of the Python client is a map of its principal components: colors, search, a row, and the table", () => onPage("alerts", async (page) => {
  await showVectors(page);
  const card = page.locator("section.card").filter({ has: page.getByRole("heading", { name: /^eval\/embedding/ }) });
  const map = card.getByRole("group", { name: /^Scatter of component 2: [\d.]+ % of the variance against component 1: [\d.]+ % of the variance of 300 rows, colored by label$/ });
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
  await card.getByRole("group", { name: /^Scatter of component 3/ }).waitFor();
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
  await card.getByRole("group", { name: /^Scatter of component 3/ }).waitFor();
  assert.equal(await card.getByLabel("Color", { exact: true }).inputValue(), "loss");
  assert.equal(await card.getByLabel("Find rows of eval/embedding").inputValue(), "sample 12 of");
  assert.deepEqual([new Set(loaded.map((query) => query.get("at"))).size, loaded.filter((query) => query.get("rows") === "200").length, workers.length], [1, 1, 1]);
  // Two numbers are drawn as they are.
  await page.getByRole("group", { name: "Scatter of coordinate 2 against coordinate 1 of 4 rows, colored by label" }).waitFor();
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
      if (element.querySelector(".tip:not([hidden])")) return { x, y };
    }
  }
  throw new Error("no point under the pointer");
});

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
  await card.getByRole("group", { name: /of 300 rows, colored by label$/ }).waitFor();
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
  const mapOf = (on) => cardOf(on).getByRole("group", { name: "Scatter of UMAP 2 against UMAP 1 of 300 rows, colored by label" });
  const pixels = (on) => mapOf(on).locator("canvas").evaluate((canvas) => canvas.toDataURL());
  const card = cardOf(page);
  await card.getByRole("group", { name: /^Scatter of component 2/ }).waitFor();
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
    await copy.getByRole("group", { name: /^Scatter of component 2.* of 2,?000 rows/ }).waitFor();
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
  const mapOf = (card) => card.getByRole("group", { name: "Scatter of UMAP 2 against UMAP 1 of 6 rows" });
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

test("every choice of a view of media and tables is in its link", () => onPage("alerts", async (page) => {
  await showVectors(page);
  const cardOf = (on, name) => on.locator("section.card").filter({ has: on.getByRole("heading", { name: new RegExp(`^${name}`) }) });
  const card = cardOf(page, "eval/embedding");
  await card.getByRole("group", { name: /of 300 rows, colored by label$/ }).waitFor();
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
    await own.getByRole("group", { name: /^Scatter of component 2: .* against component 4: .* colored by text$/ }).waitFor();
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
