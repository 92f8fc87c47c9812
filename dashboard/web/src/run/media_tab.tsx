// Images, sounds, videos, HTML pages, histograms over time, and tables.
import { type ComponentChildren, Fragment } from "preact";
import { useState } from "preact/hooks";
import type { ClipItem, ImageItem, Media, Newest, Run } from "../data/source";
import { fileSize, plural } from "../format";
import { Dialog } from "../parts/overlay";
import { useUrlPlace } from "../router";
import { source, useAsync } from "../store";
import { HistogramKindChoice, Histograms } from "./histograms";
import { StepSlider } from "./media_parts";
import { Tables } from "./tables";

export function MediaTab({ run }: { run: Run }) {
  if (run.media.length === 0) {
    return <div class="empty"><h2>No media or tables</h2><p>Programs log them with the tracker API or the Python client; see docs/python.md.</p></div>;
  }
  const kinds = (Object.keys(KINDS) as Media["kind"][]).map((kind) => ({ kind, own: run.media.filter((media) => media.kind === kind) })).filter(({ own }) => own.length > 0);
  return (
    <div class="media">
      {kinds.map(({ kind, own }) => (
        <Fragment key={kind}>
          <div class="row media-kind"><h2>{KINDS[kind].title}</h2>{kind === "histogram" && <HistogramKindChoice />}</div>
          {own.map((media) => (
            <section class={`card block ${own.length === 1 ? "alone" : ""}`} key={media.name}>
              <h3 class="row"><span class="ellipsis">{media.name}</span><span class="dim small">{plural(media.count, KINDS[kind].one)}</span></h3>
              {kind === "image" ? <Images run={run} media={media} /> : kind === "clip" ? <Clips run={run} media={media} /> : kind === "histogram" ? <Histograms run={run} media={media} /> : <Tables run={run} media={media} />}
            </section>
          ))}
        </Fragment>
      ))}
    </div>
  );
}

/** In this order on the page. `one`: the name of one. */
const KINDS: Record<Media["kind"], { title: string; one: string }> = {
  image: { title: "Images", one: "image" },
  clip: { title: "Sounds, videos and HTML", one: "file" },
  histogram: { title: "Histograms", one: "histogram" },
  table: { title: "Tables", one: "table" },
};

const MIN_CELL = 130; // pixels, of an image with its caption
const MAX_CELL = 260;

/** How many images or files are loaded at first, and then with each click. */
const LOADED = 200;

/** The images or files of the chosen step, and what is above them. */
function useNewest<T extends { step: number }>(run: Run, media: Media, load: (run: string, name: string, count: number) => Promise<Newest<T>>): { shown: T[]; head: ComponentChildren } {
  const [count, setCount] = useState(LOADED);
  const { value, error, pending } = useAsync(() => load(run.id, media.name, count), [run.id, media.name, media.count, count]);
  const steps = [...new Set(value?.items.map((item) => item.step))].sort((a, b) => a - b);
  const [at, choose] = useUrlPlace(`step.${media.name}`, steps);
  if (!value) return { shown: [], head: <p class="soft small" role="alert">{error?.message}</p> };
  const isPart = value.more || (!source().live && value.items.length < media.count);
  const head = (
    <>
      <StepSlider steps={steps} at={at} onChange={choose} name={media.name} />
      {isPart && <p class="row small soft">the newest {value.items.length.toLocaleString("en-US")} of {media.count.toLocaleString("en-US")}{value.more && <button type="button" class="button mini" disabled={pending} onClick={() => setCount(count + LOADED)}>Load earlier</button>}</p>}
      {error && <p class="soft small" role="alert">{error.message}</p>}
    </>
  );
  return { shown: value.items.filter((item) => item.step === steps[at]), head };
}

function Images({ run, media }: { run: Run; media: Media }) {
  const { shown, head } = useNewest(run, media, source().images);
  const [large, setLarge] = useState<ImageItem | null>(null);
  return (
    <>
      {head}
      <ul class="images" style={{ "--cell": `${Math.max(MIN_CELL, Math.min(MAX_CELL, Math.max(...shown.map((image) => image.width))))}px` }}>
        {shown.map((image) => (
          <li key={`${image.source}/${image.at}`}>
            <button type="button" onClick={() => setLarge(image)} aria-label={`Enlarge ${image.caption || image.name}`}><img src={image.url} width={image.width} height={image.height} alt={image.caption || `${image.name} at step ${image.step}`} loading="lazy" class={image.width < 128 ? "crisp" : ""} /></button>
            <span class="small soft">{image.caption || image.source.replace("-", " ")}</span>
          </li>
        ))}
      </ul>
      {large && <Dialog wide title={large.caption || large.name} close={() => setLarge(null)} footer={<button type="button" class="button" onClick={() => setLarge(null)}>Close</button>}><img class={`large-image ${large.width < 256 ? "crisp" : ""}`} src={large.url} alt={large.caption || large.name} /><p class="hint">step {large.step} · {large.source} · {large.width} × {large.height}</p></Dialog>}
    </>
  );
}

function Clips({ run, media }: { run: Run; media: Media }) {
  const { shown, head } = useNewest(run, media, source().clips);
  return (
    <>
      {head}
      <ul class="clips">
        {shown.reverse().map((clip: ClipItem) => (
          <li key={`${clip.source}/${clip.at}`} class={clip.type === "text/html" ? "page-clip" : ""}>
            {/* The server sends a page with a policy that also isolates it when it is opened in another tab. */}
            {clip.type === "text/html" ? <iframe sandbox="allow-scripts" loading="lazy" referrerpolicy="no-referrer" src={clip.url} title={`${clip.caption || clip.name} at step ${clip.step}`} /> : clip.type.startsWith("video/")
              ? <video controls preload="metadata" src={clip.url} aria-label={`${clip.caption || clip.name} at step ${clip.step}`} />
              : <audio controls preload="metadata" src={clip.url} aria-label={`${clip.caption || clip.name} at step ${clip.step}`} />}
            <span class="small soft">{clip.caption || clip.source.replace("-", " ")} · {clip.type.split("/")[1]}, {fileSize(clip.bytes)} · <a class="link" href={clip.url} download>Save</a></span>
          </li>
        ))}
      </ul>
    </>
  );
}
