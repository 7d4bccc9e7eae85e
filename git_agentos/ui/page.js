// Keys go to the terminal at once. (textual.js has made it when this is called.)
window.addEventListener("load", () => document.querySelector(".xterm-helper-textarea").focus());
