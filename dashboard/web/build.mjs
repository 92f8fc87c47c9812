// Type-checks and bundles the sources.
// Usage: node build.mjs [--out DIR]     default: dist
// Writes index.html, app.js, app.css and the workers events.js, projection.js and umap.js for the server, and report.html: the same page as one file, in which an
// export replaces the text __LOCKSTEP_DATA__ with its data (JSON, with every "<" written as \u003c).
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const at = process.argv.indexOf("--out");
const out = resolve(at > 0 ? process.argv[at + 1] : join(here, "dist"));

try {
  execFileSync(process.execPath, [join(here, "node_modules/typescript/bin/tsc"), "--noEmit", "-p", here], { stdio: "inherit" });
} catch {
  process.exit(1);
}

const { build } = await import("esbuild");
const bundle = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", events: "src/data/events_worker.ts", projection: "src/run/projection_worker.ts", umap: "src/run/umap_worker.ts" },
  bundle: true,
  minify: true,
  write: false,
  outdir: out,
  format: "iife",
  target: ["chrome109", "firefox115", "safari16.4"],
  charset: "utf8",
  legalComments: "eof",
  logLevel: "warning",
});
const outputText = (name) => bundle.outputFiles.find((file) => file.path === join(out, name)).text;
const text = { js: outputText("app.js"), css: outputText("app.css") };

const sha = (content) => `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
const page = readFileSync(join(here, "src/index.html"), "utf8");
// An inlined script must not contain its end tag.
const script = text.js.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
const policy = `default-src 'none'; script-src ${sha(script)}; style-src ${sha(text.css)} 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'`
  .replace(" 'unsafe-inline'", "");
const report = page
  .replace("<!--policy-->", () => `<meta http-equiv="Content-Security-Policy" content="${policy}">`)
  .replace(/<link rel="stylesheet"[^>]*>/, () => `<style>${text.css}</style>`)
  .replace(/<script [^>]*src[^>]*><\/script>/, () =>
    `<script type="application/json" id="lockstep-report">__LOCKSTEP_DATA__</script>\n<script>${script}</script>`);

mkdirSync(out, { recursive: true });
writeFileSync(join(out, "app.js"), text.js);
writeFileSync(join(out, "app.css"), text.css);
for (const worker of ["events.js", "projection.js", "umap.js"]) writeFileSync(join(out, worker), outputText(worker));
writeFileSync(join(out, "index.html"), page.replace("<!--policy-->\n", ""));
writeFileSync(join(out, "report.html"), report);
