// An error boundary: shows an error in place of a failed component and keeps the rest of the page.
import { Component, type ComponentChildren } from "preact";
import { link } from "../router";

interface Props { children: ComponentChildren }

export class Boundary extends Component<Props, { error: Error | null }> {
  override state = { error: null };

  static override getDerivedStateFromError(error: Error) {
    return { error };
  }

  override componentDidCatch(error: Error) {
    console.warn(error);
  }

  render({ children }: Props, { error }: { error: Error | null }) {
    if (!error) return children;
    return (
      <div class="empty" role="alert">
        <h2>Something went wrong</h2>
        <p>{error.message}</p>
        <p class="small dim">This is a bug in the dashboard. The run and its files are not affected.</p>
        <p class="row">
          <button type="button" class="button" onClick={() => this.setState({ error: null })}>Try again</button>
          <a class="button" href={link([])}>All runs</a>
        </p>
      </div>
    );
  }
}
