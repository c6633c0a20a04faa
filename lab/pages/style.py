"""How the HTML report looks: light and dark, on a screen and on a phone."""

STYLE = """
:root { --ground: #fff; --text: #1c2128; --faint: #5b6470; --line: #d8dde3; --band: #f4f6f8; --link: #0a5aa8;
  --yes: #0b6b3a; --no: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171b; --text: #e3e7ec; --faint: #9aa4b0; --line: #333a43; --band: #1d2228; --link: #7ab8f5;
    --yes: #6bd49a; --no: #ff8a80; }
  .picture { filter: invert(.92) hue-rotate(180deg); } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--ground); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: .5rem 0; }
h2 { font-size: 1.4rem; line-height: 1.3; margin: 2.5rem 0 .6rem; padding-top: .6rem;
  border-top: 2px solid var(--line); }
nav h2, #bars h2 { margin-top: 1rem; }
h3 { font-size: 1.15rem; margin: 1.8rem 0 .5rem; }
h4, h5 { font-size: 1rem; margin: 1.3rem 0 .4rem; }
p, li { max-width: 52rem; }
a { color: var(--link); }
header p, .back { color: var(--faint); font-size: .9rem; }
nav ul { padding-left: 0; margin: .3rem 0; list-style: none; }
nav ul ul { padding-left: 1.6rem; }
nav li { margin: .25rem 0; }
nav summary, details > summary { cursor: pointer; }
#bars details > summary { margin: .6rem 0; }
code { font: .88em ui-monospace, monospace; background: var(--band); padding: .08em .3em; border-radius: 3px; }
td code { white-space: nowrap; }
pre { background: var(--band); padding: .7rem; overflow-x: auto; border-radius: 4px; }
pre code { padding: 0; background: none; }
.wide { overflow-x: auto; margin: .7rem 0; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { border-bottom: 2px solid var(--line); background: var(--band); }
tbody tr:hover { background: var(--band); }
tr.page th { padding-top: .9rem; }
td { min-width: 2.5rem; max-width: 30rem; }
.bars td:first-child { min-width: 14rem; }
.yes { color: var(--yes); font-weight: 600; }
.no { color: var(--no); font-weight: 700; }
.picture { display: block; width: 100%; max-width: 820px; height: auto; margin: 1rem 0; }
@media (min-width: 44rem) { nav > ul { columns: 2; } nav > ul > li { break-inside: avoid; } }
@media (max-width: 44rem) { body { padding: .7rem; font-size: 15px; } h1 { font-size: 1.35rem; }
  h2 { font-size: 1.2rem; }
  table { font-size: .8rem; } th, td { padding: .25rem .4rem; } }
@media print { nav, .back { display: none; } .wide { overflow: visible; } }
"""
