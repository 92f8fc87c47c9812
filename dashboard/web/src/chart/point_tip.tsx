// The tooltip of a point, a line or another place in a drawing.

/** `at`: null without a tooltip. */
interface TipProps { at: readonly [number, number] | null | undefined; width: number; height: number; title: string | undefined; pairs: readonly (readonly [name: string, text: string])[]; isMarked: boolean }

/** In a drawing of this size; `isMarked`: with a circle around the place. It is always there, so that screen readers read its changes. */
export function PointTip({ at, width, height, title, pairs, isMarked }: TipProps) {
  return (
    <>
      {at && isMarked && <i class="scatter-mark" style={{ left: `${at[0]}px`, top: `${at[1]}px` }} />}
      <div class="tip" aria-live="polite" hidden={!at} style={at ? { left: `${at[0] > width / 2 ? Math.max(0, at[0] - 206) : at[0] + 12}px`, top: `${Math.max(0, Math.min(at[1] - 10, height - 100))}px` } : {}}>
        {at && <strong class="ellipsis">{title}</strong>}
        {at && pairs.map(([name, text]) => <span key={name} class="tip-pair"><span class="ellipsis">{name}</span><span class="ellipsis">{text}</span></span>)}
      </div>
    </>
  );
}
