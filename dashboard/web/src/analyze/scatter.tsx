// A scatter plot of any two columns, colored by a third.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { cssColor } from "../colors";
import { shownTheme } from "../settings";
import { runColors } from "./run_colors";
import type { Values } from "./values";

const PAD = { left: 62, right: 14, top: 24, bottom: 34 };
const EDGE = 0.04; // of the scale, on each side

interface Props { x: Values; y: Values; color: Values; names: string[]; inside: Uint8Array; height: number; onOpen: (run: number) => void }

/** Runs with equal settings are moved apart by up to this fraction of the gap between two values. */
function spreadOf({ values, labels, scale }: Values): (run: number) => number {
  const distinct = new Set(values);
  if (!labels && distinct.size > 20) return () => 0;
  const at = [...distinct].filter(Number.isFinite).map((value) => scale.position(value)).sort((a, b) => a - b);
  const gap = at.length < 2 ? 0.5 : at.slice(1).reduce((least, value, i) => Math.min(least, value - at[i]!), 1);
  return (run) => (((Math.imul(run + 1, 2654435761) >>> 8) % 1024) / 1024 - 0.5) * gap * 0.45;
}

export function Scatter({ x, y, color, names, inside, height, onOpen }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [hovered, setHovered] = useState<number | null>(null);
  useLayoutEffect(() => {
    const measure = () => setWidth(host.current?.clientWidth ?? 0);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(host.current!);
    return () => observer.disconnect();
  }, []);
  const left = (position: number) => PAD.left + (width - PAD.left - PAD.right) * (EDGE + (1 - 2 * EDGE) * position);
  const top = (position: number) => height - PAD.bottom - (height - PAD.top - PAD.bottom) * (EDGE + (1 - 2 * EDGE) * position);
  const points = useMemo(() => {
    const [aside, above] = [spreadOf(x), y.labels ? spreadOf(y) : () => 0];
    return Array.from(x.values, (value, run) => [left(x.scale.position(value) + aside(run)), top(y.scale.position(y.values[run]!) + above(run))] as const);
  }, [x, y, width, height]);
  const colors = useMemo(() => runColors(color), [color, shownTheme.value]);
  useLayoutEffect(() => {
    if (width === 0) return;
    const ratio = Math.min(2, devicePixelRatio || 1);
    const target = canvas.current!;
    target.width = Math.round(width * ratio);
    target.height = Math.round(height * ratio);
    const ctx = target.getContext("2d")!;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    const radius = points.length > 400 ? 2.6 : 3.6;
    const draw = (runs: Map<string, number[]>, alpha: number) => {
      ctx.globalAlpha = alpha;
      for (const [style, own] of runs) {
        ctx.fillStyle = style;
        ctx.beginPath();
        for (const run of own) {
          const [px, py] = points[run]!;
          if (!Number.isFinite(px) || !Number.isFinite(py)) continue;
          ctx.moveTo(px + radius, py);
          ctx.arc(px, py, radius, 0, 7);
        }
        ctx.fill();
      }
    };
    const others: number[] = [];
    const byColor = new Map<string, number[]>();
    colors.forEach((style, run) => {
      if (!inside[run]) others.push(run);
      else if (byColor.has(style)) byColor.get(style)!.push(run);
      else byColor.set(style, [run]);
    });
    draw(new Map([[cssColor("--line-strong"), others]]), 0.6);
    draw(byColor, points.length > 400 ? 0.75 : 0.9);
  }, [points, colors, inside, height, shownTheme.value]);
  const nearest = (event: PointerEvent): number | null => {
    const box = canvas.current!.getBoundingClientRect();
    let best: number | null = null;
    let distance = 12;
    points.forEach(([px, py], run) => {
      const off = Math.hypot(px - (event.clientX - box.left), py - (event.clientY - box.top));
      if (inside[run] && off < distance) [best, distance] = [run, off];
    });
    return best;
  };
  const grid = useMemo(() => (
    <svg width={width} height={height} aria-hidden="true">
          {y.scale.ticks(6).map(({ at, label }) => <g key={`y${at}`}><line class="grid" x1={PAD.left} x2={width - PAD.right} y1={top(at)} y2={top(at)} /><text x={PAD.left - 8} y={top(at) + 3.5} text-anchor="end">{label.length > 10 ? `${label.slice(0, 9)}…` : label}</text></g>)}
          {x.scale.ticks(Math.max(3, Math.floor(width / 90))).map(({ at, label }) => <g key={`x${at}`}><line class="grid" x1={left(at)} x2={left(at)} y1={PAD.top} y2={height - PAD.bottom} /><text x={left(at)} y={height - PAD.bottom + 14} text-anchor="middle">{label.length > 14 ? `${label.slice(0, 13)}…` : label}</text></g>)}
          <text class="axis-title" x={4} y={12}>{y.title}{y.scale.log ? " (log)" : ""}</text>
          <text class="axis-title" x={width - PAD.right} y={height - 4} text-anchor="end">{x.title}{x.scale.log ? " (log)" : ""}</text>
        </svg>
  ), [x, y, width, height]);
  const shown = points.filter(([px, py]) => Number.isFinite(px) && Number.isFinite(py)).length;
  const at = hovered === null ? null : points[hovered]!;
  return (
    <div class="scatter" ref={host} style={{ height: `${height}px` }} role="img" aria-label={`Scatter of ${y.title} against ${x.title} of ${shown} runs, colored by ${color.title}`} data-drawn={width > 0 ? shown : undefined}>
      {grid}
      <canvas ref={canvas} aria-hidden="true" style={{ width: `${width}px`, height: `${height}px`, cursor: hovered === null ? "default" : "pointer" }} onPointerMove={(event) => setHovered(nearest(event))} onPointerLeave={() => setHovered(null)} onClick={() => hovered !== null && onOpen(hovered)} />
      {at && hovered !== null && <i class="scatter-mark" style={{ left: `${at[0]}px`, top: `${at[1]}px` }} />}
      {at && hovered !== null && (
        <div class="tip" style={{ left: `${at[0] > width / 2 ? Math.max(0, at[0] - 206) : at[0] + 12}px`, top: `${Math.max(0, Math.min(at[1] - 10, height - 100))}px` }}>
          <strong class="ellipsis">{names[hovered]}</strong>
          {[...new Set([x, y, color])].map((column) => <span key={column.field} class="tip-pair"><span class="ellipsis">{column.title}</span><span>{column.scale.text(column.values[hovered]!)}</span></span>)}
        </div>
      )}
    </div>
  );
}
