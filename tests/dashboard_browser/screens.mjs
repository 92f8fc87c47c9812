// Screenshots of views for visual review: light, dark, phone, 200 % zoom and 4K.
//   node screens.mjs ADDRESS DIRECTORY VIEW...     a view as in the URL after "#/"
import { join } from "node:path";
import { close, open, showView } from "./browser.mjs";

const [address, directory, ...views] = process.argv.slice(2);
const VARIANTS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  narrow: { viewport: { width: 390, height: 844 } },
  zoom: { viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 }, // 200 %
  "4k": { viewport: { width: 3840, height: 2160 } },
};

try {
  for (const [variant, options] of Object.entries(VARIANTS)) {
    const page = await open(`${address}/#/`, options);
    for (const view of views) {
      await showView(page, view);
      await page.waitForFunction(() => !document.querySelector(".drawing.blank"), null, { timeout: 5000 }).catch(() => undefined);
      const name = view.replace(/[^\w-]+/g, "_").slice(0, 60) || "runs";
      await page.screenshot({ path: join(directory, `${name}-${variant}.png`) });
    }
    await page.context().close();
  }
} finally {
  await close();
}
