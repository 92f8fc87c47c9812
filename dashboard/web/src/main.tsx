import "uplot/dist/uPlot.min.css";
import "./design/tokens.css";
import "./design/base.css";
import "./design/parts.css";
import "./design/views.css";
import "./design/analysis.css";
import "./design/print.css";
import { render } from "preact";
import { http } from "./data/http";
import { inlined } from "./data/inlined";
import { ApiError } from "./data/source";
import { installBidiEscaping } from "./bidi";
import { Login } from "./login";
import { Shell } from "./shell";
import { initialize } from "./store";

async function start() {
  const app = document.getElementById("app")!;
  const inlinedReport = document.getElementById("lockstep-report")?.textContent;
  try {
    await initialize(inlinedReport ? inlined(inlinedReport) : http);
    render(<Shell />, app);
  } catch (error) {
    if (error instanceof ApiError && error.code === "unauthorized") render(<Login onDone={() => void start()} />, app);
    else render(<Unreachable message={(error as Error).message} />, app);
  }
}

function Unreachable({ message }: { message: string }) {
  setTimeout(() => void start(), 2000);
  return (
    <main class="empty">
      <h1>Cannot reach the server</h1>
      <p>{message}</p>
      <pre>lockstep ui</pre>
    </main>
  );
}

installBidiEscaping();
void start();
