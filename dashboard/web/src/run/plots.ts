// The lines of a metric of a run: one curve, one per node, or a band over its ranks with selected ranks overlaid.
import type { Plot } from "../chart/chart_card";
import type { BoardMetric } from "../chart/chart_board";
import { type Line, smooth as smoothed } from "../chart/line";
import { rankColor, rankDash, runColor } from "../colors";
import type { Axis, Band, Curve, Metric, Range, Run } from "../data/source";
import { source } from "../store";

/** The ranks to show: a band over all, each rank, or a band with these ranks overlaid. */
export type Ranks = "band" | "all" | number[];

export function ranksOf(text: string | null): Ranks {
  if (text === "all") return "all";
  const numbers = (text ?? "").split(",").filter(Boolean).map(Number).filter(Number.isInteger);
  return numbers.length > 0 ? numbers : "band";
}

export function sourceLabel(name: string): string {
  return name.replace(/^(rank|node)-/, "$1 ");
}

function curveLine(curve: Curve, look: Partial<Line> & { label: string; color: string }): Line {
  return { key: `${curve.run}/${curve.source}`, x: curve.x, y: curve.smooth ?? curve.y, ...(curve.smooth ? { raw: curve.y } : {}), ...look };
}

export function bandLine(band: Band, smooth: number, look: { key: string; label: string; color: string; dash?: number[] }, labelOf: (curve: { run: string; source: string }) => string): Line {
  return {
    ...look,
    x: band.x,
    y: smooth ? smoothed(band.median, smooth) : band.median,
    ...(smooth ? { raw: band.median } : {}),
    width: 1.8,
    band: { lo: band.p10, hi: band.p90, name: "10th–90th percentile" },
    extremes: {
      lo: band.min, hi: band.max, mean: band.mean, deviation: band.deviation,
      curveAt: (at, end) => {
        const curve = band.curves[(end === "lo" ? band.min_curve : band.max_curve)[at] ?? -1];
        return curve ? { ...curve, label: labelOf(curve) } : null;
      },
    },
  };
}

function rankLine(curve: Curve, many: boolean): Line {
  const number = Number(curve.source.replace(/^\D+/, ""));
  return curveLine(curve, { label: sourceLabel(curve.source), color: rankColor(number), dash: rankDash(number), width: many ? 1.1 : 1.6 });
}

async function rankLines(run: Run, metric: Metric, ranks: Ranks, query: { x: Axis; range: Range | null; points: number; smooth: number }): Promise<Line[]> {
  const common = { ...query, metric: metric.name, runs: [{ id: run.id, created: run.created }] };
  const chosen = ranks === "all" ? "ranks" as const : ranks === "band" ? [] : ranks.map((r) => `rank-${r}`);
  const hasCurves = chosen === "ranks" || chosen.length > 0;
  const [band, curves] = await Promise.all([
    ranks === "all" ? null : source().band({ runs: [run.id], metric: metric.name, x: query.x, range: query.range, points: query.points }),
    hasCurves ? source().curves({ ...common, sources: chosen }) : [],
  ]);
  const lines = curves.map((curve) => rankLine(curve, curves.length > 8));
  if (band) lines.unshift(bandLine(band, query.smooth, { key: "band", label: `median of ${band.curves.length} ranks`, color: runColor(run.id) }, (curve) => sourceLabel(curve.source)));
  else if (!hasCurves) return (await source().curves({ ...common, sources: "ranks" })).map((curve) => rankLine(curve, false));
  return lines;
}

export function runPlot(run: Run, metric: Metric, ranks: Ranks, version: number) {
  const isRank = metric.sources.filter((s) => s.startsWith("rank-")).length > 1;
  const isNodes = !isRank && metric.sources.length > 1;
  return (of: BoardMetric, axis: Axis, smooth: number): Plot => ({
    name: of.name,
    title: of.section ? of.name.slice(of.section.length + 1) : of.name,
    axis,
    version: `${version}|${isRank ? String(ranks) : ""}|${smooth}`,
    csv: source().csvUrl({ runs: [{ id: run.id, created: run.created }], metric: of.name, sources: "*" }),
    load: async (range: Range | null, points: number) => {
      const query = { x: axis, range, points, smooth };
      if (isRank) return rankLines(run, metric, ranks, query);
      const curves = await source().curves({ ...query, metric: of.name, runs: [{ id: run.id, created: run.created }], sources: isNodes ? "*" : null });
      return isNodes ? curves.map((curve) => rankLine(curve, false)) : curves.map((curve) => curveLine(curve, { label: run.name, color: runColor(run.id) }));
    },
  });
}
