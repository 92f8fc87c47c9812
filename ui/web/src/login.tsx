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
    else setError(answer ? "That is not the token." : "The server does not answer.");
  };
  return (
    <main class="empty">
      <Wordmark />
      <h1>Who is there?</h1>
      <p>This dashboard is open to other machines and asks for its token. <code>lockstep ui</code> printed a link that contains a ticket; opening it is the quicker way.</p>
      <form class="row" onSubmit={submit}>
        <label class="sr" for="token">Token</label>
        <input id="token" class="field" type="password" autocomplete="off" value={token} aria-invalid={error !== ""} aria-describedby="why" onInput={(event) => setToken(event.currentTarget.value)} />
        <button class="button primary" type="submit" disabled={!token}>Open</button>
      </form>
      <p id="why" role="alert" class="soft">{error}</p>
    </main>
  );
}
