// The login form of a server that requires a token.
import { useState } from "preact/hooks";
import { request } from "./data/request";
import { ApiError } from "./data/source";
import { Wordmark } from "./parts/icons";

export function Login({ onDone }: { onDone: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    request("login", {}, { method: "POST", json: { token } }).then(onDone, (reason: Error) =>
      setError(reason instanceof ApiError && reason.code === "unauthorized" ? "Invalid token." : reason.message));
  };
  return (
    <main class="empty">
      <Wordmark />
      <h1>Sign in</h1>
      <p>This dashboard is reachable from other machines and requires a token. The link printed by <code>lockstep ui</code> signs you in once without it.</p>
      <form class="row" onSubmit={submit}>
        <label class="small" for="token">Token</label>
        <input id="token" class="field" type="password" autocomplete="off" value={token} aria-invalid={error !== ""} aria-describedby="why" onInput={(event) => setToken(event.currentTarget.value)} />
        <button class="button primary" type="submit" disabled={!token}>Sign in</button>
      </form>
      <p id="why" role="alert" class="soft">{error}</p>
    </main>
  );
}
