// Icons, on a 16 × 16 grid.
import type { ComponentChildren } from "preact";

const PATHS = {
  search: <><circle cx="7" cy="7" r="4.2" /><path d="m10.2 10.2 3.3 3.3" /></>,
  sun: <><circle cx="8" cy="8" r="2.8" /><path d="M8 1.5v1.4M8 13.1v1.4M1.5 8h1.4M13.1 8h1.4M3.4 3.4l1 1M11.6 11.6l1 1M3.4 12.6l1-1M11.6 4.4l1-1" /></>,
  moon: <path d="M13 9.6A5.4 5.4 0 0 1 6.4 3a5.4 5.4 0 1 0 6.6 6.6Z" />,
  auto: <><circle cx="8" cy="8" r="5.4" /><path d="M8 2.6v10.8a5.4 5.4 0 0 0 0-10.8Z" fill="currentColor" /></>,
  columns: <><rect x="2" y="3" width="12" height="10" rx="1.5" /><path d="M6.2 3v10M10 3v10" /></>,
  group: <><path d="M2.5 4h11M5 8h8.5M5 12h8.5M2.5 7v5" /></>,
  down: <path d="m4 6.2 4 4 4-4" />,
  right: <path d="m6.2 4 4 4-4 4" />,
  up: <path d="m4 9.8 4-4 4 4" />,
  left: <path d="m9.8 4-4 4 4 4" />,
  close: <path d="m4 4 8 8M12 4l-8 8" />,
  check: <path d="m3.2 8.4 3.2 3.2 6.4-7" />,
  pin: <path d="M6 2h4l-.6 4L12 8.5v1H4v-1L6.6 6 6 2ZM8 9.5V14" />,
  more: <><circle cx="3.5" cy="8" r=".9" fill="currentColor" /><circle cx="8" cy="8" r=".9" fill="currentColor" /><circle cx="12.5" cy="8" r=".9" fill="currentColor" /></>,
  expand: <path d="M9.5 2.5h4v4M13.2 2.8 9 7M6.5 13.5h-4v-4M2.8 13.2 7 9" />,
  options: <><path d="M2.5 4.8h6M12.5 4.8h1M2.5 11.2h1M7.5 11.2h6" /><circle cx="10.5" cy="4.8" r="1.8" /><circle cx="5.5" cy="11.2" r="1.8" /></>,
  size: <><rect x="2.2" y="2.2" width="4.6" height="4.6" rx="1" /><rect x="9.2" y="2.2" width="4.6" height="4.6" rx="1" /><rect x="2.2" y="9.2" width="4.6" height="4.6" rx="1" /><rect x="9.2" y="9.2" width="4.6" height="4.6" rx="1" /></>,
  download: <path d="M8 2.5v7.3M4.8 6.8 8 10l3.2-3.2M2.8 13.2h10.4" />,
  stop: <rect x="4" y="4" width="8" height="8" rx="1.2" />,
  trash: <path d="M2.8 4.2h10.4M6.2 4V2.6h3.6V4M4.2 4.4l.6 9h6.4l.6-9" />,
  tag: <><path d="M2.5 7.6V2.8c0-.2.1-.3.3-.3h4.8l5.9 5.9-5.1 5.1-5.9-5.9Z" /><circle cx="5.4" cy="5.4" r=".8" fill="currentColor" /></>,
  note: <path d="M3 2.8h10v7l-3.4 3.4H3V2.8ZM9.6 13V9.8H13M5.4 5.8h5.2M5.4 8.2h2.6" />,
  compare: <path d="M2.2 3.2c3.2 0 4 8.6 11.6 8.6M2.2 11.8C6 11.8 7 6.4 13.8 5.4" />,
  bell: <path d="M8 2.2a3.8 3.8 0 0 0-3.8 3.8c0 3.4-1.4 4.6-1.4 5.4h10.4c0-.8-1.4-2-1.4-5.4A3.8 3.8 0 0 0 8 2.2ZM6.6 13.4a1.5 1.5 0 0 0 2.8 0" />,
  warn: <path d="M8 2.4 14.2 13H1.8L8 2.4ZM8 6.6v3.2M8 11.4v.1" />,
  file: <path d="M4 1.9h5.2L12.4 5v9H4V1.9ZM9 2v3.2h3.2" />,
  link: <path d="M6.6 9.4a2.6 2.6 0 0 0 3.7 0l2-2a2.6 2.6 0 0 0-3.7-3.7l-.8.8M9.4 6.6a2.6 2.6 0 0 0-3.7 0l-2 2a2.6 2.6 0 0 0 3.7 3.7l.8-.8" />,
  keyboard: <><rect x="1.8" y="4" width="12.4" height="8" rx="1.4" /><path d="M4.4 6.6h.1M7 6.6h.1M9.6 6.6h.1M12 6.6h-.1M5.2 9.6h5.6" /></>,
  chart: <path d="M2.5 13.2V2.8M2.5 13.2h11M4.6 10.4l2.6-3.6 2.4 2 3.4-5" />,
  reset: <path d="M3 8a5 5 0 1 0 1.6-3.7M4.6 1.8v2.8h2.8" />,
} satisfies Record<string, ComponentChildren>;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg width={`${size / 14}rem`} height={`${size / 14}rem`} viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      {PATHS[name]}
    </svg>
  );
}

export function Wordmark() {
  return (
    <span class="wordmark">
      <svg width="1.43rem" height="1.43rem" viewBox="0 0 20 20" fill="none" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
        <path class="one" d="M2 13h4V8h4V3h4" />
        <path class="two" d="M6 17h4v-5h4V7h4" />
      </svg>
      Lockstep
    </span>
  );
}
