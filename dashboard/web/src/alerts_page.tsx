// The alerts of all runs.
import { useEffect } from "preact/hooks";
import type { Alert } from "./data/source";
import { AlertList } from "./run/alert_list";
import { source, tick, useAsync, useThrottled } from "./store";

export function AlertsPage() {
  const { value, error } = useAsync<Alert[]>(() => source().alerts(), [useThrottled(tick.value, 2000)]);
  useEffect(() => void (document.title = "Alerts · Lockstep"), []);
  return (
    <div class="page">
      <div class="tools"><h1>Alerts</h1></div>
      {error && <p class="notice bad" role="alert">{error.message}</p>}
      {value && value.length > 0 && <AlertList alerts={value} names />}
      {value?.length === 0 && <div class="empty"><h2>No alerts</h2><p>Alerts for NaN, loss spikes, stalls, slow or lost ranks and full disks appear here. To also send them elsewhere, add a webhook to the run file:</p><pre>{"tracking:\n  sinks: [console, {name: webhook, url: \"https://...\"}]"}</pre></div>}
      {!value && !error && <p class="waiting">Loading…</p>}
    </div>
  );
}
