"""Plans for people: text, Mermaid and SVG."""
