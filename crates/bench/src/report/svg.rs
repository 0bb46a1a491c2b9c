//! Writes SVG by hand: a few shapes, text, and one style sheet for light and dark.

use std::fmt::Write as _;

/// Plain rules, no variables: many image viewers support no more.
const STYLE: &str = "\
    svg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:12px}\
    text{fill:#16202c}.dim{fill:#5b6675}.title{font-size:20px;font-weight:600}\
    .head{font-size:14px;font-weight:600}.end{text-anchor:end}.mid{text-anchor:middle}\
    .grid{stroke:#dde2e8}.paper{fill:#ffffff}.good{fill:#15803d}.bad{fill:#b42318}\
    .lazuli{fill:#1d4ed8}.azurite{fill:#a8b0ba}.bare-http{fill:#0f9d8a}.bare-log{fill:#d98512}\
    .curve{fill:none;stroke:#1d4ed8;stroke-width:2}\
    @media (prefers-color-scheme:dark){text{fill:#e6ebf1}.dim{fill:#94a0ae}.grid{stroke:#2b343f}\
    .paper{fill:#12171d}.good{fill:#4ade80}.bad{fill:#f87171}.lazuli{fill:#6b9bff}\
    .azurite{fill:#66707c}.bare-http{fill:#3cc7b4}.bare-log{fill:#f0a94a}.curve{stroke:#6b9bff}}";

/// A drawing that grows downwards.
pub(super) struct Svg {
    body: String,
    width: f64,
}

impl Svg {
    pub(super) fn new(width: f64) -> Self {
        Self { body: String::new(), width }
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escape(text);
        let _ =
            writeln!(self.body, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>");
    }

    /// A filled box; `tip` appears when the pointer is over it.
    pub(super) fn bar(
        &mut self,
        (x, y): (f64, f64),
        width: f64,
        height: f64,
        class: &str,
        tip: &str,
    ) {
        let (width, tip) = (width.max(1.0), escape(tip));
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" \
             class=\"{class}\"><title>{tip}</title></rect>"
        );
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = writeln!(
            self.body,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" class=\"{class}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A line with a dot at each of its points.
    pub(super) fn curve(&mut self, points: &[(f64, f64)]) {
        let list: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.body, "<polyline points=\"{}\" class=\"curve\"/>", list.join(" "));
        for (x, y) in points {
            let _ = writeln!(
                self.body,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" class=\"lazuli\"/>"
            );
        }
    }

    /// The whole document.
    pub(super) fn finish(self, height: f64) -> String {
        let Self { body, width } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\">\n<style>{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n{body}</svg>\n"
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut svg = Svg::new(10.0);
        svg.text(0.0, 0.0, "dim", "a < b & c");
        assert!(svg.finish(10.0).contains("a &lt; b &amp; c"));
    }
}
