// The login form of a server that requires a token.
import { useState } from "preact/hooks";
import { Wordmark } from "./parts/icons";

export function Login({ onDone }: { onDone: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    const response = await fetch("/api/login", {
      method: "POST", body: JSON.stringify({ token }), headers: { "Content-Type": "application/json", "X-Lockstep-Request": "1" },
    }).catch(() => null);
    if (response?.ok) onDone();
    else setError(response ? "Invalid token." : "Cannot reach the server.");
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
