// Security of the dashboard in a browser: names must not run as scripts, and neither other sites nor users without the token may
// read data. Also the fallback to polling if no event stream is available.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, get } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { showView, violations } from "./browser.mjs";
import { directory, end, link, LOCKSTEP, open, python, record, run, runs, serve, show, waitFor } from "./world.mjs";

const SCRIPT = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>';
const FILE = '<img src=x onerror="window.pwned=1">.txt'; // a file name cannot contain a slash
const TOKEN = "a-token-that-cannot-be-guessed";
let address;

/** All user-defined texts of the run gallery-1 are `SCRIPT`. */
function plant() {
  record("gallery");
  record("many", "3");
  const gallery = join(runs, "gallery-1");
  writeFileSync(join(gallery, FILE), "a file");
  mkdirSync(join(gallery, "logs", "attempt_0", "0"), { recursive: true });
  writeFileSync(join(gallery, "logs", "attempt_0", "0", "stdout.log"), `plain\n${SCRIPT}\n\x1b]8;;javascript:window.pwned=1\x07click\x1b]8;;\x07 error ${SCRIPT}\n`);
  mkdirSync(join(gallery, "checkpoints", FILE), { recursive: true });
  writeFileSync(join(gallery, "checkpoints", FILE, "state"), "x");
  writeFileSync(join(gallery, "tags.json"), JSON.stringify({ tags: ["good"], note: `${SCRIPT} a note` }));
  // Written directly: the program rejects such tags.
  writeFileSync(join(runs, "short-00001", "tags.json"), JSON.stringify({ tags: [SCRIPT], note: "" }));
  const weights = join(directory, "weights");
  mkdirSync(weights);
  writeFileSync(join(weights, FILE), "weights");
  run(LOCKSTEP, "artifacts", "put", "net", weights, "--type", "model", "--metadata", `<script>=${SCRIPT}`, "--dir", runs);
  plantArtifacts();
}

/** Written directly, because the program rejects such names of artifacts, types, runs and aliases: they are reported as corrupt. */
function plantArtifacts() {
  const artifacts = join(runs, "artifacts");
  const copied = (name, file, members) => {
    const path = join(artifacts, name, file);
    cpSync(join(artifacts, "net"), join(artifacts, name), { recursive: true });
    writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), ...(file === "v1.json" ? { name } : {}), ...members }));
  };
  copied("renamed", "v1.json", { name: SCRIPT });
  copied("typed", "v1.json", { type: SCRIPT });
  copied("made", "v1.json", { made_by: SCRIPT });
  copied("used", "v1.json", { used_by: [SCRIPT] });
  copied("aliased", "aliases.json", { aliases: { [SCRIPT]: 1 } });
  copied(FILE, "v1.json", {});
}

before(async () => {
  plant();
  address = await serve();
  await waitFor(async () => (await (await fetch(`${address}/api/runs`)).json()).matching === 4, "all runs");
});

after(end);

/** Checks that no element of the page originates from the data. */
async function checkUnharmed(page, where) {
  assert.equal(await page.locator('img[src="x"], main script, [onerror]').count(), 0, `an element from the data in ${where}`);
  assert.equal(await page.evaluate(() => window.pwned), undefined, `a script from the data ran in ${where}`);
}

const VIEWS = ["", "?by=group", "?by=tag", `?cols=note,group,host,config.model.name&q=${encodeURIComponent("name ~ gallery")}`, "run/gallery-1", "run/gallery-1/ranks", "run/gallery-1/config", "run/gallery-1/console",
  "run/gallery-1/artifacts", "run/gallery-1/media", "run/gallery-1/alerts", "compare?runs=gallery-1,short-00000", "compare?runs=gallery-1,short-00000&view=group", "compare?runs=gallery-1,short-00000&tab=config",
  "compare?runs=gallery-1,short-00000&tab=results", `compare?runs=gallery-1,short-00000&title=${encodeURIComponent(SCRIPT)}`, `group?q=name%20~%20gallery&title=${encodeURIComponent(SCRIPT)}`, "artifacts", "alerts",
  `run/${encodeURIComponent(SCRIPT)}`, `${encodeURIComponent(SCRIPT)}`, `?q=${encodeURIComponent(SCRIPT)}`, `run/gallery-1/charts?m=${encodeURIComponent(SCRIPT)}`];

// With the content security policy, which would block injected scripts, and without it.
for (const bypassCSP of [false, true]) {
  test(`names that contain HTML are shown as text (${bypassCSP ? "without" : "with"} the content security policy)`, async () => {
    const page = await open(`${address}/#/`, { bypassCSP });
    await page.getByText("4 runs", { exact: true }).waitFor();
    for (const view of VIEWS) {
      await showView(page, view);
      await checkUnharmed(page, view);
      page.consoleErrors = page.consoleErrors.filter((text) => !/status of 40[04]/.test(text)); // an invalid run or filter
    }
    await showView(page, "?by=group");
    await page.locator(".runs-row.grouped strong").filter({ hasText: SCRIPT }).waitFor();
    await page.getByRole("button", { name: "Columns" }).click();
    await page.getByLabel("Search columns").fill("img");
    await page.getByRole("button", { name: `last of eval/${SCRIPT}` }).click();
    await checkUnharmed(page, "the column picker");
    await page.keyboard.press("Escape");
    await page.getByLabel("Filter runs").pressSequentially("eval/");
    await page.getByRole("option", { name: /onerror/ }).first().waitFor();
    await checkUnharmed(page, "the suggestions of the filter");
    page.consoleErrors.length = 0; // incomplete expressions were rejected

    await showView(page, "run/gallery-1");
    await page.getByText(`${SCRIPT} a note`).waitFor();
    await page.getByRole("link", { name: SCRIPT, exact: true }).waitFor(); // the group
    const chart = page.getByRole("group", { name: /^Chart of eval\/<img/ });
    await chart.locator("canvas").waitFor(); // drawn
    await chart.focus();
    await page.keyboard.press("ArrowLeft");
    await chart.locator(".tip").getByText("step 200").waitFor();
    await checkUnharmed(page, "the tooltip");
    await page.getByRole("button", { name: `Enlarge eval/${SCRIPT}` }).click();
    await page.getByRole("dialog").getByRole("group", { name: /^Chart of eval\/<img/ }).waitFor();
    await checkUnharmed(page, "an enlarged chart");
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "More", exact: true }).click();
    await page.getByRole("button", { name: "Edit note" }).click();
    assert.equal(await page.getByRole("textbox", { name: "Note" }).inputValue(), `${SCRIPT} a note`);
    await checkUnharmed(page, "the note editor");
    await page.keyboard.press("Escape");

    await showView(page, "run/gallery-1/console");
    await page.getByText(SCRIPT, { exact: true }).first().waitFor();
    assert.equal(await page.locator('a[href^="javascript"]').count(), 0);
    await page.getByLabel("Search the console").fill("<img src=x");
    await page.getByText("2 lines").waitFor();
    await checkUnharmed(page, "the search in the console");

    await showView(page, "run/gallery-1/artifacts");
    await page.getByText(FILE, { exact: true }).waitFor();
    await showView(page, "artifacts");
    await page.getByRole("button", { name: /Files of net/ }).click();
    await page.getByText(FILE, { exact: true }).waitFor();
    await page.locator("dt", { hasText: "<script>" }).waitFor();
    await page.locator("dd").getByText(SCRIPT, { exact: true }).waitFor();
    for (const name of ["renamed/v1", "typed/v1", "made/v1", "used/v1", "aliased/aliases"]) await page.getByText(`${name}.json: corrupt`).waitFor();
    await checkUnharmed(page, "the files of an artifact");

    await showView(page, "run/gallery-1/media");
    await page.getByRole("region", { name: "Confusion matrix" }).getByRole("rowheader", { name: SCRIPT }).waitFor();
    await page.getByRole("heading", { name: `eval/${SCRIPT}` }).waitFor();
    await page.getByRole("button", { name: `Enlarge ${SCRIPT}` }).first().click();
    await page.getByRole("dialog", { name: SCRIPT }).waitFor();
    await checkUnharmed(page, "an enlarged image");
    await page.keyboard.press("Escape");

    await showView(page, "run/short-00001");
    await page.getByText(/tags.json is corrupt/).waitFor();
    await checkUnharmed(page, "a run with invalid tags");
    assert.deepEqual(page.consoleErrors, []);
    await page.context().close();
  });

  test(`names that contain HTML are shown as text in a report (${bypassCSP ? "without" : "with"} the content security policy)`, async () => {
    const file = join(directory, "report.html");
    run(LOCKSTEP, "runs", "export", "gallery-1", "short-00000", "--html", file, "--dir", runs);
    const page = await open(`file://${file}`, { bypassCSP });
    await page.getByRole("heading", { level: 1, name: "2 runs" }).waitFor();
    for (const view of VIEWS.filter((v) => !v.startsWith("?") && !/title|artifacts/.test(v))) {
      await page.evaluate((hash) => (location.hash = hash), `#/${view}`);
      await page.locator("main h1").first().waitFor();
      await checkUnharmed(page, `the report's ${view}`);
    }
    await showView(page, "run/gallery-1/console");
    await page.getByText(SCRIPT, { exact: true }).first().waitFor();
    await page.getByLabel("Search the console").fill("plain");
    await page.getByText("1 line", { exact: true }).waitFor();
    await showView(page, "run/gallery-1/media");
    await page.getByRole("region", { name: "Confusion matrix" }).getByRole("rowheader", { name: SCRIPT }).waitFor();
    await page.getByRole("group", { name: /^Heat map of weights\/fc1 over 11 steps/ }).waitFor();
    await checkUnharmed(page, "the report's media");
    assert.deepEqual(page.consoleErrors, []);
    await page.context().close();
  });
}

/** A page of another site that tries every kind of access. */
const FOREIGN = `<!doctype html><title>foreign</title><body><script>
  const target = new URLSearchParams(location.search).get("target"), got = {};
  const attempt = (name, work) => Promise.resolve().then(work).then((value) => (got[name] = value), (error) => (got[name] = "refused: " + error.name));
  const json = { "Content-Type": "application/json", "X-Lockstep-Request": "1" };
  const body = JSON.stringify({ add: ["stolen"], note: "stolen", confirm: "short-00000", reason: "stolen" });
  const load = (kind, path) => new Promise((resolve, reject) => {
    const element = document.createElement(kind);
    element.onload = () => resolve("loaded");
    element.onerror = () => reject(new Error());
    element.src = target + path;
    document.body.append(element);
  });
  const stream = () => new Promise((resolve, reject) => {
    const events = new EventSource(target + "/api/events", { withCredentials: true });
    events.onopen = () => resolve("open");
    events.onerror = () => reject(new Error());
  });
  const post = () => new Promise((resolve) => {
    const frame = document.createElement("iframe");
    frame.name = "answer";
    document.body.append(frame);
    const form = document.createElement("form");
    Object.assign(form, { action: target + "/api/runs/short-00000/tags", method: "POST", enctype: "text/plain", target: "answer" });
    const field = document.createElement("input");
    Object.assign(field, { name: body.slice(0, -1) + ',"x":"', value: '"}' });
    form.append(field);
    document.body.append(form);
    frame.onload = () => resolve("sent");
    form.submit();
  });
  Promise.all([
    attempt("read", () => fetch(target + "/api/runs").then((r) => r.text())),
    attempt("read blindly", () => fetch(target + "/api/runs", { mode: "no-cors" }).then((r) => r.text())),
    attempt("script", () => load("script", "/app.js")),
    attempt("image", () => load("img", new URLSearchParams(location.search).get("image"))),
    attempt("stream", stream),
    attempt("tag", () => fetch(target + "/api/runs/short-00000/tags", { method: "POST", headers: json, body }).then((r) => r.text())),
    attempt("tag blindly", () => fetch(target + "/api/runs/short-00000/tags", { method: "POST", mode: "no-cors", body }).then((r) => r.text())),
    attempt("delete", () => fetch(target + "/api/runs/short-00000", { method: "DELETE", headers: json, body }).then((r) => r.text())),
    attempt("form", post),
    attempt("frame", () => load("iframe", "/").then(() => (frames[frames.length - 1].document ? "readable" : "closed"))),
  ]).then(() => (window.got = got));
</script>`;

test("a page of another site can neither read nor write", async () => {
  const foreign = createServer((_, response) => response.writeHead(200, { "Content-Type": "text/html" }).end(FOREIGN));
  await new Promise((resolve) => foreign.listen(0, "127.0.0.1", resolve));
  const before = show("short-00000");
  const image = (await (await fetch(`${address}/api/runs/gallery-1/images`)).json()).items[0].url;
  assert.equal((await fetch(address + image)).status, 200);
  try {
    // 127.0.0.1 is another port of the same site, localhost is another site.
    for (const host of ["127.0.0.1", "localhost"]) {
      const page = await open(`http://${host}:${foreign.address().port}/?target=${encodeURIComponent(address)}&image=${encodeURIComponent(image)}`);
      const got = await (await page.waitForFunction(() => window.got)).jsonValue();
      for (const [name, result] of Object.entries(got)) {
        const isBlocked = /^refused/.test(result) || result === "" || result === "sent";
        assert.ok(isBlocked, `${name} from ${host}: ${String(result).slice(0, 200)}`);
      }
      await page.context().close();
    }
  } finally {
    foreign.close();
  }
  assert.deepEqual(show("short-00000"), before);
});

test("beyond loopback, the page requires the token and does not store it", async () => {
  const file = join(directory, "token");
  writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 });
  const tokens = join(directory, "tokens");
  const sender = run(LOCKSTEP, "ui", "token", "add", "node-1", "--role", "send", "--tokens", tokens).trim();
  const ticket = await link("--host", "0.0.0.0", "--token-file", file, "--tokens", tokens);
  const page = await open(ticket.origin);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.deepEqual(await violations(page), []);
  await page.getByLabel("Token").fill("not the token");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "Invalid token." }).waitFor();
  await page.getByLabel("Token").fill(sender);
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "this token may only send runs" }).waitFor();
  assert.equal(await page.getByText("gallery").count(), 0);
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("4 runs", { exact: true }).waitFor();
  await page.reload();
  await page.getByText("4 runs", { exact: true }).waitFor();
  const kept = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie, location.href]));
  assert.ok(!kept.includes(TOKEN) && !/lockstep_\d/.test(kept), kept);
  await page.context().close();

  const guest = await open(ticket.href);
  await guest.getByText("4 runs", { exact: true }).waitFor();
  assert.ok(!guest.url().includes("ticket"), "the URL does not contain the ticket");
  assert.deepEqual(guest.consoleErrors, []);
  await guest.context().close();
  const late = await open(ticket.href);
  await late.getByRole("heading", { name: "Sign in" }).waitFor();
  await late.context().close();
});

test("a page without an event stream polls every two seconds", async () => {
  const own = await serve();
  const streams = [];
  try {
    for (let i = 0; i < 32; i++) streams.push(await new Promise((resolve) => get(`${own}/api/events`, resolve)));
    assert.ok(streams.every((stream) => stream.statusCode === 200));
    const page = await open(`${own}/#/`);
    await page.getByText("4 runs", { exact: true }).waitFor();
    await page.getByTitle("Polling for updates every 2 seconds").waitFor();
    record("charts", "2", "10");
    await page.getByText("5 runs", { exact: true }).waitFor();
    await page.getByRole("link", { name: "charts", exact: true }).waitFor();
    assert.deepEqual(page.consoleErrors.filter((text) => !/status of 503/.test(text)), []);
    await page.context().close();
  } finally {
    for (const stream of streams) stream.destroy();
  }
});

/** A recorded page whose script tries to reach the dashboard, and writes what it got into its document. */
const PAGE = `<!doctype html><title>plot</title><p id="out"></p><script>
  const got = {};
  const attempt = (name, work) => Promise.resolve().then(work).then((value) => (got[name] = value), (error) => (got[name] = "refused: " + error.name));
  const load = (kind, path) => new Promise((resolve, reject) => {
    const element = document.createElement(kind);
    element.onload = () => resolve("loaded");
    element.onerror = () => reject(new Error());
    element.src = path;
    document.body.append(element);
  });
  const stream = () => new Promise((resolve, reject) => {
    const events = new EventSource("/api/events", { withCredentials: true });
    events.onopen = () => resolve("open");
    events.onerror = () => reject(new Error());
  });
  const ask = () => new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.onload = () => resolve("read");
    request.onerror = () => reject(new Error());
    request.open("GET", "/api/runs");
    request.send();
  });
  const json = { "Content-Type": "application/json", "X-Lockstep-Request": "1" };
  Promise.all([
    attempt("parent", () => (parent === self ? Promise.reject(new Error()) : ((parent.pwned = 1), parent.document.title))),
    attempt("top", () => (top === self ? Promise.reject(new Error()) : (top.location.href = "/pwned"))),
    attempt("cookie", () => document.cookie),
    attempt("storage", () => localStorage.length),
    attempt("session", () => sessionStorage.length),
    attempt("read", () => fetch("/api/runs").then((r) => r.text())),
    attempt("read with cookies", () => fetch("/api/runs", { credentials: "include" }).then((r) => r.text())),
    attempt("read blindly", () => fetch("/api/runs", { mode: "no-cors", credentials: "include" }).then((r) => r.text())),
    attempt("tag", () => fetch("/api/runs/html/tags", { method: "POST", headers: json, body: '{"add":["stolen"]}' }).then((r) => r.text())),
    attempt("request", ask),
    attempt("script", () => load("script", "/app.js")),
    attempt("image", () => load("img", "/api/runs/gallery-1/images")),
    attempt("stream", stream),
    attempt("window", () => open("/") && "opened"),
    attempt("worker", () => new Promise((resolve, reject) => { const own = new Worker("/events.js"); own.onerror = () => reject(new Error()); own.onmessage = () => resolve("open"); })),
  ]).then(() => {
    got.origin = self.origin;
    document.getElementById("out").textContent = JSON.stringify(got);
  });
</script>`;
const ESCAPE = '<script>location.href = "/";</script>';

test("a recorded HTML page runs its scripts where they cannot reach the dashboard", async () => {
  python("import lockstep, sys\nwith lockstep.init(name='html', id='html', dir=sys.argv[1], agent=False) as run:\n    run.log({'plot': lockstep.Html(sys.argv[2]), 'escape': lockstep.Html(sys.argv[3])}, step=1)", runs, PAGE, ESCAPE);
  const file = join(directory, "token-of-pages");
  writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 });
  const ticket = await link("--token-file", file);
  const page = await open(ticket.href);
  await page.getByRole("link", { name: "html", exact: true }).waitFor();
  await showView(page, "run/html/media");
  const verify = (text) => {
    const { origin, ...got } = JSON.parse(text);
    assert.equal(origin, "null");
    assert.equal(Object.keys(got).length, 15);
    for (const [name, result] of Object.entries(got)) assert.ok(result === null || /^refused/.test(result), `${name}: ${String(result).slice(0, 200)}`);
  };
  const frame = page.locator('iframe[title="plot at step 1"]');
  verify(await frame.contentFrame().locator("#out", { hasText: "origin" }).textContent());
  // A frame that goes to the dashboard itself is not shown.
  await page.locator('iframe[title="escape at step 1"]').scrollIntoViewIfNeeded();
  await waitFor(() => page.frames().some((one) => one.url().startsWith("chrome-error:")), "the frame to be blocked");
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.match(page.url(), /#\/run\/html\/media/);
  // Also if it is opened in a tab, with the cookie of the user.
  const tab = await page.context().newPage();
  await tab.goto(new URL(await frame.getAttribute("src"), page.url()).href);
  verify(await tab.locator("#out", { hasText: "origin" }).textContent());
  await tab.close();
  assert.deepEqual(await violations(page, { iframes: false }), []);
  await page.context().close();
  assert.deepEqual(show("html").tags ?? [], []);

  const report = join(directory, "report-of-pages.html");
  run(LOCKSTEP, "runs", "export", "html", "--html", report, "--dir", runs);
  assert.ok(!readFileSync(report, "utf8").includes("window.got"), "no page is in a report");
  const offline = await open(`file://${report}`);
  await showView(offline, "run/html/media");
  await offline.getByText(/A sound, a video or a page/).first().waitFor();
  assert.equal(await offline.locator("iframe").count(), 0);
  assert.equal(await offline.evaluate(() => window.pwned), undefined);
  await offline.context().close();
});
