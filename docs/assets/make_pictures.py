"""Makes the pictures of the README from the real program: run.svg (a terminal recording) and dashboard.png (a screenshot).

make_pictures.py BUILD_DIRECTORY needs chromium, rich and the MNIST data (`make demo` fetches it).
"""
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
COMMAND = ["lockstep", "launch", "-n", "2", "configs/mnist.yaml"]
COLUMNS = 110
TAKE = """
import { chromium } from "playwright-core";
const [url, path] = process.argv.slice(1);
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
await page.goto(url);
await page.locator("canvas").nth(3).waitFor();
await page.waitForTimeout(1000);
await page.screenshot({ path });
await browser.close();
"""


def record(command, directory):
    """Runs a command on a terminal. Returns its lines, each with the seconds after which it was complete."""
    primary, secondary = pty.openpty()
    environment = dict(os.environ, COLUMNS=str(COLUMNS), TERM="xterm-256color")
    process = subprocess.Popen(command, cwd=directory, stdin=secondary, stdout=secondary, stderr=secondary, env=environment)
    os.close(secondary)
    begin, lines, rest = time.monotonic(), [], b""
    while True:
        readable, _, _ = select.select([primary], [], [], 600)
        try:
            data = os.read(primary, 65536) if readable else b""
        except OSError:  # the command has closed its side
            data = b""
        if not data:
            break
        rest += data
        *complete, rest = rest.split(b"\n")
        lines += [(time.monotonic() - begin, line.rstrip(b"\r").decode(errors="replace")) for line in complete]
    if process.wait(60):
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n" + "\n".join(line for _, line in lines))
    return lines


def animate(svg, times):
    """Shows each line of rich's SVG at its time; then stays, and begins again after 8 s."""
    total = times[-1] + 8
    rules = [f"@keyframes line-{i} {{0%, {100 * t / total:.2f}% {{opacity: 0}} {100 * t / total + 0.01:.2f}%, 100% {{opacity: 1}}}}\n"
             f".at-{i} {{animation: line-{i} {total:.2f}s step-end infinite}}" for i, t in enumerate(times)]
    svg = svg.replace("</style>", "\n".join(rules) + "\n</style>", 1)
    return re.sub(r'<text class="([^"]*)"([^>]*clip-path="url\(#[^"]*-line-(\d+)\)")',
                  lambda m: f'<text class="{m[1]} at-{min(int(m[3]), len(times) - 1)}"{m[2]}', svg)


def terminal(build, runs):
    lines = record([build / "bin" / COMMAND[0], *COMMAND[1:], f"run.dir={runs}", "run.name=mnist", "tracking.ranks=all"], ROOT)
    lines = [(t, line.replace(str(runs), "runs").replace(f"{build}/bin/", "")) for t, line in lines]
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), legacy_windows=False)
    console.print(Text(f"$ {' '.join(COMMAND)}"))
    times = [0.0]
    for t, line in lines:
        text = Text.from_ansi(line)
        console.print(text, overflow="fold", soft_wrap=False)
        times += [t] * max(1, len(text.wrap(console, COLUMNS)))
    (HERE / "run.svg").write_text(animate(console.export_svg(title="lockstep"), times))


def screenshot(build, runs):
    server = subprocess.Popen([build / "bin" / "lockstep", "ui", "--dir", runs], stdout=subprocess.PIPE, text=True)
    try:
        url = None
        while not url:
            url = re.search(r"http://\S+", server.stdout.readline())
        run = next(path.name for path in Path(runs).iterdir() if (path / "run.json").exists())
        subprocess.run(["node", "--input-type=module", "-e", TAKE, f"{url[0].rstrip('/')}/#/run/{run}", HERE / "dashboard.png"],
                       cwd=ROOT / "tests" / "dashboard_browser", check=True, timeout=120)
    finally:
        server.terminate()
        server.wait(30)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        terminal(Path(sys.argv[1]).resolve(), folder)
        screenshot(Path(sys.argv[1]).resolve(), folder)
