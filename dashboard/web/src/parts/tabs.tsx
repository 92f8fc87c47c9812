// The parts of a view, in a row that scrolls sideways where it is too narrow.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Tab { name: string; title: string; href: string; count?: number; bad?: boolean }

export function Tabs({ label, tabs, current }: { label: string; tabs: Tab[]; current: string }) {
  const box = useRef<HTMLElement>(null);
  // The ends at which something is cut off: it is faded there.
  const [cut, setCut] = useState("");
  const look = ({ scrollLeft, scrollWidth, clientWidth }: HTMLElement) => setCut([scrollLeft > 1 && "start", scrollLeft + clientWidth < scrollWidth - 1 && "end"].filter(Boolean).join(" "));
  useEffect(() => {
    const own = box.current!.querySelector<HTMLElement>("[aria-current]");
    if (own) box.current!.scrollLeft = own.offsetLeft - box.current!.clientWidth / 2 + own.offsetWidth / 2;
  }, [current]);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => look(entry!.target as HTMLElement));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  return (
    <nav class="tabs" aria-label={label} ref={box} onScroll={(event) => look(event.currentTarget)} data-cut={cut}>
      {tabs.map(({ name, title, href, count, bad }) => (
        <a key={name} href={href} aria-current={name === current ? "page" : undefined}>{title}{count ? <span class={`count ${bad ? "bad" : ""}`}>{count}</span> : null}</a>
      ))}
    </nav>
  );
}
