// Debian's Chromium, driven by playwright-core.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";
import { waitFor } from "./world.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser;

/** Opens a page in a new context; collects the errors of its browser in `consoleErrors`. */
export async function open(address, options = {}) {
  browser ??= await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60000);
  page.consoleErrors = [];
  page.on("pageerror", (error) => page.consoleErrors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.consoleErrors.push(message.text()));
  await page.goto(address);
  return page;
}

/** Runs `work` on a page. Checks that the browser logged no errors and that no script from the data ran. */
export async function visit(address, work, options) {
  const page = await open(address, options);
  try {
    await work(page);
    assert.deepEqual(page.consoleErrors, [], "errors in the browser's console");
    assert.equal(await page.evaluate(() => window.pwned), undefined, "a script from the data ran");
  } finally {
    await page.unrouteAll({ behavior: "ignoreErrors" }); // requests that are still in a handler
    await page.context().close();
  }
}

export const drawn = (page, name) => page.getByRole("group", { name: new RegExp(`^Chart of ${name}\\. .+`) });

export async function close() {
  await browser?.close();
}

/** Navigates to a view and waits until it is loaded. */
export async function showView(page, view) {
  await page.evaluate((hash) => (location.hash = hash), `#/${view}`);
  await page.waitForFunction(() => document.querySelector("main h1") && !document.querySelector("main > .waiting, .page > .waiting, .drawing > .waiting"));
}

/** The violations of accessibility rules that axe finds: the rule, the first elements, and how to fix each. */
export async function violations(page, options = {}) {
  await page.evaluate(axe);
  const found = await page.evaluate((options) => window.axe.run(document, { resultTypes: ["violations"], ...options }), options);
  const described = (node) => `${node.html.slice(0, 160)} (${node.failureSummary.split("\n").pop().trim()})`;
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(described).join(" | ")}`);
}

/** The parameters of the view in the URL. */
export const queryOf = (page) => new URLSearchParams(page.url().split("?").slice(1).join("?"));

/** Waits until the URL has these parameters, and runs `look` on a new page with this URL. */
export async function onCopy(page, parameters, look) {
  const written = () => Object.fromEntries(Object.keys(parameters).map((key) => [key, queryOf(page).get(key)]));
  await waitFor(() => JSON.stringify(written()) === JSON.stringify(parameters), `the URL to have ${JSON.stringify(parameters)}, not ${JSON.stringify(written())}`, 20);
  await visit(page.url(), look);
}

/** Scrolls to the end at 240 pixels per frame. Returns frame intervals and the work of long frames: milliseconds, in descending order. */
export function scrollThrough(page) {
  return page.evaluate(() => new Promise((resolve) => {
    const gaps = [];
    const work = [];
    const watcher = new PerformanceObserver((entries) => entries.getEntries().forEach((entry) => work.push(entry.duration)));
    watcher.observe({ type: "long-animation-frame" });
    const height = document.documentElement.scrollHeight;
    let last = 0;
    const step = (now) => {
      if (last > 0) gaps.push(now - last);
      last = now;
      scrollBy(0, 240);
      if (scrollY + innerHeight < height - 2) return requestAnimationFrame(step);
      requestAnimationFrame(() => setTimeout(() => {
        watcher.disconnect();
        resolve({ gaps: gaps.sort((a, b) => b - a), work: work.sort((a, b) => b - a) });
      }));
    };
    requestIdleCallback(() => requestAnimationFrame(step));
  }));
}

/** Drags a selection along the last axis of parallel coordinates, moving it with every frame. Returns the frame intervals. */
export function brushThrough(page, frames = 90) {
  return page.evaluate((count) => new Promise((resolve) => {
    const canvas = [...document.querySelectorAll(".parallel canvas")].at(-1);
    const box = canvas.getBoundingClientRect();
    const send = (target, type, y) => target.dispatchEvent(new PointerEvent(type, { bubbles: true, cancelable: true, clientX: box.right - 44, clientY: y, buttons: 1, pointerId: 1 }));
    const y = (share) => box.top + 46 + (box.height - 72) * share;
    const gaps = [];
    let last = 0;
    const step = (now) => {
      if (last > 0) gaps.push(now - last);
      last = now;
      send(window, "pointermove", y(0.1 + 0.8 * Math.abs(Math.sin(gaps.length / 20))));
      if (gaps.length < count) return requestAnimationFrame(step);
      send(window, "pointerup", y(0.8));
      resolve(gaps);
    };
    send(canvas, "pointerdown", y(0));
    requestAnimationFrame(step);
  }), frames);
}
