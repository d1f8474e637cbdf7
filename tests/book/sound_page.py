"""A page in which the site check finds no fault; {} is the place of its body."""

DESCRIPTION = "What this page is about, in a sentence of fifty characters."
CARD = (
    f'<meta name="description" content="{DESCRIPTION}">'
    '<meta name="twitter:card" content="summary_large_image">'
    '<meta property="og:type" content="article">'
    '<meta property="og:title" content="Page">'
    f'<meta property="og:description" content="{DESCRIPTION}">'
    '<meta property="og:image" content="page.html">'
    '<meta property="og:image:alt" content="A line">'
    '<link rel="canonical" href="https://example.org/b/page.html">'
)
SOUND = f"""<html lang="en"><head><title>Page</title>{CARD}</head>
<body>{{}}</body></html>"""
