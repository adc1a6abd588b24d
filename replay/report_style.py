"""The look of the page: calm greys, and one accent, green where a query is the same and orange where it differs."""

STYLE = """
:root{color-scheme:light dark;--back:#f5f7fa;--card:#fff;--ink:#1f2933;--soft:#52606d;--line:#dde3ea;--bar:#a9b6c4;
--same:#2f7d54;--differs:#c2470e;--none:#52606d;--mark:#fbe3d6;--shade:#1f293326}
@media (prefers-color-scheme:dark){:root{--back:#11161b;--card:#1a2128;--ink:#e6ebf0;--soft:#9fabb8;--line:#2d3741;
--bar:#566575;--same:#63c391;--differs:#f58b55;--none:#9fabb8;--mark:#53301d;--shade:#0009}}
*{box-sizing:border-box}
html{scroll-behavior:smooth}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:900px;margin:0 auto;padding:32px 20px 48px}
.same{--accent:var(--same)}.differs{--accent:var(--differs)}.not-compared{--accent:var(--none)}
h1{font-size:26px;line-height:1.25;margin:0 0 4px;font-weight:650;letter-spacing:-.01em;text-wrap:balance}
h2{font-size:19px;margin:0;font-weight:650;overflow-wrap:anywhere}
p{margin:0}
a{color:inherit;text-decoration-color:var(--soft);text-underline-offset:3px}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--accent,var(--soft));
outline-offset:2px;border-radius:4px}
.soft{color:var(--soft)}
header,section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:24px;margin-bottom:20px}
header{display:flex;gap:18px;border-top:4px solid var(--accent)}
header .sign{flex:none;width:44px;height:44px}
header .sign circle{fill:var(--accent)}
header .sign path{fill:none;stroke:var(--card);stroke-width:3;stroke-linecap:round;stroke-linejoin:round}
header .job{color:var(--soft);overflow-wrap:anywhere}
header .facts{color:var(--soft);font-size:13px;margin-top:10px}
.head{display:flex;align-items:center;gap:10px;flex-wrap:wrap}
.pill{border:1px solid var(--accent);color:var(--accent);border-radius:99px;padding:0 10px;font-size:13px;
line-height:22px;white-space:nowrap}
.sentence{margin:6px 0 0}
.how{color:var(--soft);font-size:13px;margin-top:2px;overflow-wrap:anywhere}
.tiles{display:grid;grid-template-columns:repeat(6,1fr);margin:18px 0 0;
border:1px solid var(--line);border-radius:8px;gap:1px;background:var(--line);overflow:hidden}
.tiles div{padding:8px 10px;background:var(--card)}
.tiles dt{font-size:13px;color:var(--soft);white-space:nowrap}
.tiles dd{margin:0;font-size:17px;font-weight:600;overflow-wrap:anywhere}
.tiles .bad{font-weight:400}.tiles .bad dd{color:var(--accent)}
figure{margin:22px 0 0}
figcaption{font-size:13px;color:var(--soft);margin-bottom:4px}
.scroll{overflow-x:auto;background:linear-gradient(90deg,var(--card) 24px,transparent) 0/48px 100%,
linear-gradient(270deg,var(--card) 24px,transparent) 100%/48px 100%,
linear-gradient(90deg,var(--shade),transparent) 0/14px 100%,
linear-gradient(270deg,var(--shade),transparent) 100%/14px 100%;background-repeat:no-repeat;
background-attachment:local,local,scroll,scroll}
figure svg{display:block;width:100%;min-width:580px;height:auto}
svg text{font-size:12px;fill:var(--soft)}
svg .y{text-anchor:end}svg .x{text-anchor:middle}
svg .bar{fill:var(--bar)}svg .mark{fill:var(--accent)}
svg .grid,svg .tick{stroke:var(--line);fill:none}
svg .share{stroke:var(--ink);stroke-width:2;fill:none}
svg .promised{stroke:var(--soft);stroke-dasharray:3 3;fill:none}
svg .hit path{fill:var(--ink);fill-opacity:0}
svg .hit path:hover{fill-opacity:.08}
details{margin-top:18px;border-top:1px solid var(--line);padding-top:14px}
summary{cursor:pointer;font-weight:600;width:fit-content;padding-right:6px}
table{border-collapse:collapse;font-size:14px;width:100%;margin-top:8px}
caption{text-align:left;color:var(--soft);font-size:13px;padding-bottom:6px}
th,td{padding:5px 12px 5px 0;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap;
vertical-align:baseline}
th:last-child,td:last-child{padding-right:0}
th{font-weight:500;color:var(--soft);font-size:13px}
td.n,th.n{text-align:right}
.replayed table,.examples table{width:auto}.replayed th,.replayed td{padding-right:28px}
.examples th,.examples td{padding-right:20px}
td i{color:var(--soft)}
tbody th{color:var(--ink);font-size:14px;vertical-align:top}
.zero{color:var(--soft);opacity:.8}
.strip{display:block;margin-top:3px}
.bad{color:var(--accent);font-weight:600}
mark{background:var(--mark);color:inherit;border-radius:3px;padding:1px 4px;margin:0 -4px;font-weight:600}
.examples tbody tr:not(:last-child) td{border-bottom-color:transparent}
.more{color:var(--soft);font-size:13px;margin-top:8px}
dl.words{display:grid;grid-template-columns:max-content 1fr;gap:4px 18px;margin:12px 0 0}
dl.words dt{font-weight:600}dl.words dd{margin:0;color:var(--soft)}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
@media (max-width:760px){.tiles{grid-template-columns:repeat(3,1fr)}}
@media (max-width:560px){main{padding:12px 8px 32px}header,section{padding:16px}header{gap:12px}h1{font-size:21px}
header .sign{width:32px;height:32px}}
@media print{body{background:none}section,header{break-inside:avoid}}
""".strip()
"""The style sheet."""
