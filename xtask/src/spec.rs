//! The ids of rules: every id that code, tests or documents cite is defined in `docs/spec`, and no
//! id is defined twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Text that looks like the id of a rule: two elliptic curves, and the exponent of a double.
const NOT_RULES: [&str; 3] = ["P-256", "P-384", "E-324"];

/// Files that cite rules end in one of these.
const EXTENSIONS: [&str; 9] = ["c", "go", "java", "js", "md", "py", "rs", "sh", "toml"];

/// Directories that hold build products, recorded traffic or third-party code.
const NOT_SEARCHED: [&str; 5] = ["target", "golden", "corpus", "node_modules", "lazuli-data"];

/// The rules of all pages.
struct Spec {
    /// Each id with the place of its definition.
    rules: BTreeMap<String, Place>,
    /// Sections: `T-5` and `U-5.5` for the rules `T-5.1` and `U-5.5.1`.
    sections: BTreeSet<String>,
    /// The letters of the ids: `T`, `TR`, ...
    letters: BTreeSet<String>,
    defined_twice: Vec<String>,
}

#[derive(Clone, Debug)]
struct Place {
    file: PathBuf,
    line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl Spec {
    fn read(root: &Path) -> Self {
        let mut spec = Self {
            rules: BTreeMap::new(),
            sections: BTreeSet::new(),
            letters: BTreeSet::new(),
            defined_twice: Vec::new(),
        };
        for_each_line(root, &root.join("docs/spec"), &mut |place, line| {
            if let Some(id) = definition(line) {
                spec.define(id, place);
            }
        });
        spec
    }

    fn define(&mut self, id: &str, place: Place) {
        if let Some((letters, _)) = id.split_once('-') {
            self.letters.insert(letters.to_owned());
        }
        let dots = id.match_indices('.');
        self.sections.extend(dots.filter_map(|(dot, _)| id.get(..dot)).map(str::to_owned));
        if let Some(first) = self.rules.get(id) {
            self.defined_twice.push(format!("{id}: {first} and {place}"));
        } else {
            self.rules.insert(id.to_owned(), place);
        }
    }

    /// Whether `id` is a rule or a section, or does not look like one of ours.
    fn knows(&self, id: &str) -> bool {
        let is_ours = id.split_once('-').is_some_and(|(letters, _)| self.letters.contains(letters));
        let is_known = self.rules.contains_key(id) || self.sections.contains(id);
        !is_ours || is_known || NOT_RULES.contains(&id)
    }
}

/// The id that a line of a page defines: `- T-1.1 …`, `| V-1 | …` or `## P-1 …`.
fn definition(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let marker = text.find(|c: char| !matches!(c, '-' | '|' | '#'))?;
    let text = text.get(marker..)?.strip_prefix(' ').filter(|_| marker > 0)?;
    let length = id_length(text)?;
    let rest = text.get(length..)?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| text.get(..length))?
}

/// Every id in `line`, in order.
fn citations(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let begins = !before.is_ascii_alphanumeric() && !matches!(before, '-' | '_' | '.');
        let length = id_length(rest).filter(|_| begins);
        let (id, after) = rest.split_at(length.unwrap_or(first.len_utf8()));
        if length.is_some() {
            found.push(id);
        }
        before = first;
        rest = after;
    }
    found
}

/// The length of the id that `text` begins with: capitals, a hyphen, numbers with dots between
/// them, perhaps a small letter; then no letter or digit.
fn id_length(text: &str) -> Option<usize> {
    let letters = text.find(|c: char| !c.is_ascii_uppercase()).filter(|n| (1..=3).contains(n))?;
    let numbers = text.get(letters..)?.strip_prefix('-')?;
    let mut length = numbers.find(|c: char| !c.is_ascii_digit()).unwrap_or(numbers.len());
    if length == 0 {
        return None;
    }
    while let Some(rest) = numbers.get(length..)?.strip_prefix('.') {
        match rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()) {
            0 => break,
            digits => length += 1 + digits,
        }
    }
    let mut rest = numbers.get(length..)?.chars();
    let mut next = rest.next();
    if next.is_some_and(|c| c.is_ascii_lowercase()) {
        length += 1;
        next = rest.next();
    }
    let ends = !next.is_some_and(|c| c.is_ascii_alphanumeric());
    ends.then_some(letters + 1 + length)
}

fn for_each_line(root: &Path, directory: &Path, visit: &mut dyn FnMut(Place, &str)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !name.starts_with('.') && !NOT_SEARCHED.contains(&name) {
                for_each_line(root, &path, visit);
            }
        } else if path.extension().is_some_and(|e| EXTENSIONS.iter().any(|known| e == *known)) {
            let text = fs::read_to_string(&path).unwrap();
            let file = path.strip_prefix(root).unwrap();
            for (number, line) in text.lines().enumerate() {
                visit(Place { file: file.to_owned(), line: number + 1 }, line);
            }
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn every_cited_rule_exists() {
    let spec = Spec::read(root());
    let mut unknown = Vec::new();
    let mut known = 0;
    for_each_line(root(), root(), &mut |place, line| {
        // This file holds made-up ids.
        for id in citations(line).into_iter().filter(|_| !place.file.ends_with("xtask/src/spec.rs"))
        {
            if spec.knows(id) {
                known += 1;
            } else {
                unknown.push(format!("{place}: {id}"));
            }
        }
    });
    assert!(unknown.is_empty(), "docs/spec does not define:\n{}", unknown.join("\n"));
    assert!(known > 1000, "only {known} citations found");
}

#[test]
fn no_rule_is_defined_twice() {
    let spec = Spec::read(root());
    assert!(spec.defined_twice.is_empty(), "defined twice:\n{}", spec.defined_twice.join("\n"));
    assert!(spec.rules.len() > 2000, "only {} rules found", spec.rules.len());
}

#[test]
fn rules_are_defined_by_list_items_table_rows_and_headings() {
    assert_eq!(definition("- T-1.17a Text. [rec]"), Some("T-1.17a"));
    assert_eq!(definition("  - O-3.3 Text."), Some("O-3.3"));
    assert_eq!(definition("| TR-9 | 1787 | text |"), Some("TR-9"));
    assert_eq!(definition("## P-1 Heading"), Some("P-1"));
    assert_eq!(definition("T-1.1 begins a sentence."), None);
    assert_eq!(definition("- See T-1.1."), None);
    assert_eq!(definition("- A-1.1, A-1.2: a list of rules"), None);
    assert_eq!(definition("| [P-1](#p-1) | contents |"), None);
}

#[test]
fn ids_are_found_in_prose_and_code() {
    assert_eq!(
        citations("/// T-2.64a: as V-3, TR-31 and (A-4.15)."),
        ["T-2.64a", "V-3", "TR-31", "A-4.15"]
    );
    assert_eq!(citations("the range B-2.13 to B-2.17; U-5.5.1"), ["B-2.13", "B-2.17", "U-5.5.1"]);
    assert_eq!(citations("1E-324, x-T-1, AB-cd, T-, T-1ab, ABCD-1"), [] as [&str; 0]);
}
