import "uplot/dist/uPlot.min.css";
import "./design/tokens.css";
import "./design/base.css";
import "./design/parts.css";
import "./design/views.css";
import "./design/print.css";
import { render } from "preact";
import { http } from "./data/http";
import { inlined } from "./data/inlined";
import { Refusal } from "./data/source";
import { keepOrderOfText } from "./legible";
import { Login } from "./login";
import { Shell } from "./shell";
import { begin } from "./store";

async function start() {
  const app = document.getElementById("app")!;
  const carried = document.getElementById("lockstep-report")?.textContent;
  try {
    await begin(carried ? inlined(carried) : http);
    render(<Shell />, app);
  } catch (error) {
    if (error instanceof Refusal && error.code === "unauthorized") render(<Login onDone={() => void start()} />, app);
    else render(<Unreachable message={(error as Error).message} />, app);
  }
}

function Unreachable({ message }: { message: string }) {
  setTimeout(() => void start(), 2000);
  return (
    <main class="empty">
      <h1>No answer</h1>
      <p>{message}</p>
      <pre>lockstep ui</pre>
    </main>
  );
}

keepOrderOfText();
void start();
