// The expressions that have charts: an input with suggestions, and the list of all.
import { useState } from "preact/hooks";
import { Icon } from "../parts/icons";
import { Popover } from "../parts/overlay";
import { expressions } from "../settings";
import { changeSetting } from "./chart_settings";
import { FUNCTIONS, parseExpression } from "./expression";

export function ExpressionList({ names }: { names: readonly string[] }) {
  return (
    <Popover name="Expressions" class="button" label={<><span class="fx" aria-hidden="true">ƒ</span><span class="wide-only">Expression</span></>}>
      {(close) => <Editor names={names} close={close} />}
    </Popover>
  );
}

function errorOf(text: string, names: readonly string[]): string | null {
  try {
    parseExpression(text, names);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

function Editor({ names, close }: { names: readonly string[]; close: () => void }) {
  const [text, setText] = useState("");
  const [tried, setTried] = useState(false);
  const error = text.trim() ? errorOf(text.trim(), names) : null;
  const word = /[^\s()+*^,]*$/.exec(text)![0];
  const suggestions = word.length > 0 ? names.filter((name) => name.toLowerCase().includes(word.toLowerCase()) && name !== word).slice(0, 6) : [];
  const add = () => {
    setTried(true);
    if (!text.trim() || error) return;
    const next = text.trim();
    changeSetting(() => (expressions.value = [...expressions.value.filter((other) => other !== next), next]));
    close();
  };
  const example = names.length > 1 ? `${names[0]} - ${names[1]}` : `smooth(${names[0] ?? "train/loss"}, 0.9)`;
  return (
    <form class="expression-editor" onSubmit={(event) => { event.preventDefault(); add(); }}>
      <label class="small soft" for="expression">A chart of an expression of metrics</label>
      <div class="row">
        <input id="expression" data-first class="field mono" autocomplete="off" spellcheck={false} placeholder={example} value={text} aria-invalid={error !== null && tried} aria-describedby="expression-error" onInput={(event) => setText(event.currentTarget.value)} />
        <button type="submit" class="button primary">Add</button>
      </div>
      <p id="expression-error" class={`tiny ${tried ? "bad" : "dim"}`} role="status">{error ?? ""}</p>
      {suggestions.length > 0 && <ul class="row wrap">{suggestions.map((name) => <li key={name}><button type="button" class="button mini mono" onClick={() => setText(text.slice(0, text.length - word.length) + name + " ")}>{name}</button></li>)}</ul>}
      <p class="hint"><code>+ - * / ^</code>, {FUNCTIONS.join(", ")}. <code>A vs B</code> plots A against B. Values are at the points of the metric with the fewest; the others are interpolated.</p>
      {expressions.value.length > 0 && <ul class="expression-all">{expressions.value.map((other) => (
        <li key={other} class="row"><code class="ellipsis spread" title={other}>{other}</code>{errorOf(other, names) && <span class="tiny dim" title={errorOf(other, names)!}>not for these runs</span>}
          <button type="button" class="button quiet mini icon" aria-label={`Remove ${other}`} onClick={() => changeSetting(() => (expressions.value = expressions.value.filter((one) => one !== other)))}><Icon name="close" size={12} /></button></li>
      ))}</ul>}
    </form>
  );
}
