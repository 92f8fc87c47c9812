// Workers for pages that are opened from a folder (file:), where browsers start none: the script runs in a hidden frame.
// The search needs it; on pages from a server this does nothing.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const source = String(new URL(url, document.baseURI)).replace(/"/g, "%22");
      this.frame.srcdoc = `<script>
        self.postMessage = (data) => parent.postMessage(data, "*");
        self.importScripts = (...urls) => Promise.all(urls.map((each) => new Promise((resolve) => {
          const script = document.createElement("script");
          script.src = new URL(each, "${source}");
          script.onload = resolve;
          document.head.append(script);
        })));
      </` + `script><script src="${source}"></` + "script>";
      this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve));
      addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow) return;
        event.stopImmediatePropagation();
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
      (document.body || document.documentElement).append(this.frame);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
