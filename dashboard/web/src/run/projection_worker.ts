// Computes principal components without blocking the page.
import { principalComponents, type Vectors } from "./projection";

addEventListener("message", (event: MessageEvent<Vectors>) => postMessage(principalComponents(event.data)));
