// Sizes and positions of elements, as state.
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

/** The width of the content of an element in pixels; 0 before it is laid out. */
export function useWidth(host: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(host.current?.clientWidth ?? 0);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(host.current!);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** Whether an element is in or near the viewport. */
export function useNearViewport(host: RefObject<HTMLElement | null>, always: boolean): boolean {
  const [near, setNear] = useState(always);
  useEffect(() => {
    if (always) return;
    const observer = new IntersectionObserver((entries) => setNear(entries[entries.length - 1]!.isIntersecting), { rootMargin: "500px 0px" });
    observer.observe(host.current!);
    return () => observer.disconnect();
  }, []);
  return near;
}
