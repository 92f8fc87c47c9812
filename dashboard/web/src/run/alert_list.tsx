import type { Alert } from "../data/source";
import { ago, moment } from "../format";
import { link } from "../router";
import { useNow } from "../store";

export function AlertList({ alerts, names }: { alerts: Alert[]; names: boolean }) {
  const now = useNow(5000);
  return (
    <ul class="alerts card">
      {alerts.map((alert, i) => (
        <li key={`${alert.run}/${alert.time}/${i}`} class={alert.level}>
          <span class="level">{alert.level}</span>
          <div>
            <strong>{alert.title}</strong>
            {alert.text && <p class="soft">{alert.text}</p>}
            <p class="hint">
              {names && <><a class="link" href={link(["run", alert.run])}>{alert.run}</a> · </>}
              {alert.source.replace("-", " ")}{alert.step !== undefined && alert.step !== null ? ` · step ${alert.step.toLocaleString("en-US")}` : ""} · <span title={moment(alert.time)}>{ago(alert.time, now)}</span>
            </p>
          </div>
        </li>
      ))}
    </ul>
  );
}
