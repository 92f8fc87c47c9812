// The tooltip of a point, a line or another place in a drawing.

import type { Delta } from "../metrics";

export type TipPair = readonly [name: string, text: string, difference?: Delta | null];

/** `at`: null without a tooltip. */
interface TipProps { at: readonly [number, number] | null | undefined; width: number; height: number; title: string | undefined; pairs: readonly TipPair[]; isMarked: boolean }

/** In a drawing of this size; `isMarked`: with a circle around the place. It is always there, so that screen readers read its changes. */
export function PointTip({ at, width, height, title, pairs, isMarked }: TipProps) {
  const [left, right] = [at?.[0] ?? 0, width - (at?.[0] ?? 0)];
  const side = left > right ? { right: `${right + 12}px` } : { left: `${left + 12}px` };
  return (
    <>
      {at && isMarked && <i class="scatter-mark" style={{ left: `${at[0]}px`, top: `${at[1]}px` }} />}
      <div class="tip" aria-live="polite" hidden={!at} style={at ? { ...side, maxWidth: `min(24rem, ${Math.max(left, right) - 12}px)`, top: `${Math.max(0, Math.min(at[1] - 10, height - 100))}px` } : {}}>
        {at && <strong class="ellipsis">{title}</strong>}
        {at && pairs.map(([name, text, delta]) => <span key={name} class="tip-pair"><span class="ellipsis">{name}</span><span class="ellipsis">{text}{delta && <span class={`delta ${delta.tone}`}>{delta.absolute}{delta.percent && ` · ${delta.percent}`}</span>}</span></span>)}
      </div>
    </>
  );
}
