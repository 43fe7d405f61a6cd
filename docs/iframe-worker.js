"use strict";

// Pages that are read from disk may not start workers. There the search runs in a hidden frame of the page instead.
if (location.protocol === "file:") {
    window.Worker = class extends EventTarget {
        constructor(url) {
            super();
            const frame = document.createElement("iframe");
            frame.hidden = true;
            document.documentElement.append(frame);
            this.inside = frame.contentWindow;
            this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
            this.loaded = new Promise((resolve, reject) => {
                const script = this.inside.document.createElement("script");
                Object.assign(script, {src: url, onload: resolve, onerror: reject});
                this.inside.document.head.append(script);
            });
        }

        postMessage(data) {
            this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})));
        }
    };
}
