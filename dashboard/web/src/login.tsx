// Asks for the token that a server beyond loopback wants.
import { useState } from "preact/hooks";
import { Wordmark } from "./parts/icons";

export function Login({ onDone }: { onDone: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    const answer = await fetch("/api/login", {
      method: "POST", body: JSON.stringify({ token }), headers: { "Content-Type": "application/json", "X-Lockstep-Request": "1" },
    }).catch(() => null);
    if (answer?.ok) onDone();
    else setError(answer ? "This token is wrong." : "The server does not answer.");
  };
  return (
    <main class="empty">
      <Wordmark />
      <h1>Sign in</h1>
      <p>This dashboard can be reached from other machines, so it asks for its token. The link that <code>lockstep ui</code> printed signs in without one, once.</p>
      <form class="row" onSubmit={submit}>
        <label class="small" for="token">Token</label>
        <input id="token" class="field" type="password" autocomplete="off" value={token} aria-invalid={error !== ""} aria-describedby="why" onInput={(event) => setToken(event.currentTarget.value)} />
        <button class="button primary" type="submit" disabled={!token}>Open</button>
      </form>
      <p id="why" role="alert" class="soft">{error}</p>
    </main>
  );
}
