// Browsers start no Worker for a page from file://, and the site's search is one: its script runs in a hidden frame here.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      const scope = this.frame.contentWindow
      const deliver = (target, message) => {
        const data = structuredClone(message) // as between threads: either side changes its own
        setTimeout(() => target.onmessage?.(new MessageEvent("message", { data })))
      }
      scope.postMessage = (data) => deliver(this, data)
      this.waiting = [] // until the script is there
      this.postMessage = (data) => this.waiting.push(data)
      const script = scope.document.createElement("script")
      script.src = url
      script.onload = () => {
        this.postMessage = (data) => deliver(scope, data)
        this.waiting.forEach(this.postMessage)
      }
      script.onerror = (event) => this.onerror?.(event)
      scope.document.documentElement.append(script)
    }
    terminate() {
      this.frame.remove()
    }
  }
}
