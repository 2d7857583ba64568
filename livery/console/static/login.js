// The link that livery prints carries the token after "#": put it into the form, out of the address bar, and send.
"use strict";

const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  history.replaceState(null, "", location.pathname + location.search);
  document.getElementById("token").value = token;
  document.querySelector("form").requestSubmit();
}
