// Tabs, which scroll horizontally if they do not fit.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Tab { name: string; title: string; href: string; count?: number; bad?: boolean }

export function Tabs({ label, tabs, current }: { label: string; tabs: Tab[]; current: string }) {
  const box = useRef<HTMLElement>(null);
  // The sides at which tabs are cut off, which are faded.
  const [cut, setCut] = useState("");
  const update = ({ scrollLeft, scrollWidth, clientWidth }: HTMLElement) => setCut([scrollLeft > 1 && "start", scrollLeft + clientWidth < scrollWidth - 1 && "end"].filter(Boolean).join(" "));
  useEffect(() => {
    const own = box.current!.querySelector<HTMLElement>("[aria-current]");
    if (own) box.current!.scrollLeft = own.offsetLeft - box.current!.clientWidth / 2 + own.offsetWidth / 2;
  }, [current]);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => update(entry!.target as HTMLElement));
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, []);
  return (
    <nav class="tabs" aria-label={label} ref={box} onScroll={(event) => update(event.currentTarget)} data-cut={cut}>
      {tabs.map(({ name, title, href, count, bad }) => (
        <a key={name} href={href} aria-current={name === current ? "page" : undefined}>{title}{count ? <span class={`count ${bad ? "bad" : ""}`}>{count}</span> : null}</a>
      ))}
    </nav>
  );
}
