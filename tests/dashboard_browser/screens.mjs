// Pictures of every view, to be looked at: light, dark, as narrow as a telephone, at 200 %, and 4K.
//   node screens.mjs ADDRESS DIRECTORY VIEW...     a view as in the address, behind "#/"
import { join } from "node:path";
import { close, open, showView } from "./browser.mjs";

const [address, directory, ...views] = process.argv.slice(2);
const LOOKS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  narrow: { viewport: { width: 390, height: 844 } },
  zoom: { viewport: { width: 720, height: 450 }, deviceScaleFactor: 2 }, // 200 %
  "4k": { viewport: { width: 3840, height: 2160 } },
};

try {
  for (const [look, options] of Object.entries(LOOKS)) {
    const page = await open(`${address}/#/`, options);
    for (const view of views) {
      await showView(page, view);
      await page.waitForFunction(() => !document.querySelector(".drawing.blank"), null, { timeout: 5000 }).catch(() => undefined);
      const name = view.replace(/[^\w-]+/g, "_").slice(0, 60) || "runs";
      await page.screenshot({ path: join(directory, `${name}-${look}.png`) });
    }
    await page.context().close();
  }
} finally {
  await close();
}
