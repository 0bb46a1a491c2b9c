//! C-1.4: every public item of the client stands in an example: in a code block of the crate's
//! documentation, of the README or of a page in `docs/patterns`, or in an example program.
//!
//! The lint `unreachable_pub` ensures that what is `pub` in the source is public. Nobody writes the
//! name of a builder or of what it answers: a type also counts as shown if a shown function takes or
//! returns it, if it is the output of a future, or if a public field or constant has it. A trait
//! counts by its methods.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A public type or function, or a method of one.
#[derive(Debug, PartialEq)]
struct Item {
    kind: String,
    name: String,
    /// The type or trait that a method belongs to.
    owner: Option<String>,
    /// A function's arguments, bounds and result, as they are written.
    signature: String,
    /// Its line in the file, from 0.
    line: usize,
}

impl Item {
    fn is_type(&self) -> bool {
        self.kind != "fn"
    }

    fn place(&self, path: &Path) -> String {
        format!("{}:{}: {} {}", path.display(), self.line + 1, self.kind, self.name)
    }
}

/// What one source file declares, without the tests at its end.
#[derive(Debug, Default)]
struct Declared {
    items: Vec<Item>,
    /// The names in modules that are hidden from the documentation: only derived code uses them.
    hidden: BTreeSet<String>,
    /// The types of public fields, variants and constants, and of the outputs of futures.
    held: BTreeSet<String>,
}

impl Declared {
    fn read(source: &str) -> Self {
        let lines: Vec<_> = source.lines().collect();
        let mut declared = Self::default();
        let mut owner = None;
        let mut is_in_trait = false;
        let mut is_in_hidden_module = false;
        let mut is_hidden = false;
        for (number, line) in lines.iter().enumerate() {
            let next = lines.get(number + 1).copied().unwrap_or_default();
            if *line == "#[cfg(test)]" && next.starts_with("mod ") && next.ends_with('{') {
                break;
            }
            let text = line.trim_start();
            if text.starts_with('#') || text.starts_with("//") {
                is_hidden |= text.starts_with("#[doc(hidden)]");
                continue;
            }
            if *line == "}" {
                (owner, is_in_trait, is_in_hidden_module) = (None, false, false);
            }
            if line.starts_with("impl") {
                owner = implemented(line);
            }
            if is_in_hidden_module {
                declared.hidden.extend(words_of(line).map(str::to_owned));
            }
            is_in_hidden_module |= is_hidden && line.starts_with("pub mod ");
            if holds_types(text, line.len() - text.len()) {
                declared.held.extend(words_of(text).map(str::to_owned));
            }
            let is_method = is_in_trait && line.len() - text.len() == 4;
            let declaration = text.strip_prefix("pub ").or(is_method.then_some(text));
            if let Some((kind, name)) = declaration.and_then(declaration_of)
                && !is_hidden
                && !(is_in_trait && kind == "type")
            {
                if kind == "trait" {
                    (owner, is_in_trait) = (Some(name.to_owned()), true);
                } else {
                    declared.items.push(Item {
                        kind: kind.to_owned(),
                        name: name.to_owned(),
                        owner: owner.clone(),
                        signature: signature(&lines[number..]),
                        line: number,
                    });
                }
            }
            is_hidden = false;
        }
        declared
    }
}

/// Whether a line declares a public field, a variant with fields, a constant or an output, whose
/// type it names.
fn holds_types(text: &str, indent: usize) -> bool {
    let is_field = text.starts_with("pub ") && !text.contains(" fn ");
    let is_variant = text.starts_with(char::is_uppercase) && text.ends_with("),");
    let is_alias = indent == 0 && text.starts_with("pub type ");
    let is_constant = text.starts_with("const ") && text.contains(": ");
    let is_output = text.starts_with("type Output = ");
    (indent == 4 && (is_field || is_variant || is_constant || is_output)) || is_alias
}

/// The type of a block of its own methods: `Get` of `impl<T: Kind> Get<'_, T> {`.
fn implemented(line: &str) -> Option<String> {
    let mut depth = 0_u32;
    let rest = line.strip_prefix("impl")?;
    let begins = rest.find(|c: char| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => return depth == 0 && c != ' ',
        }
        false
    })?;
    words_of(rest.get(begins..)?).next().map(str::to_owned)
}

/// The kind and the name that a line declares: `async fn get<T>(` declares the `fn` named `get`.
fn declaration_of(text: &str) -> Option<(&str, &str)> {
    let mut words = text.split(' ').skip_while(|word| ["async", "unsafe"].contains(word));
    let mut kind = words.next()?;
    let mut rest = words.next()?;
    if kind == "const" && ["fn", "async", "unsafe"].contains(&rest) {
        kind = "fn";
        rest = words.find(|word| !["fn", "async", "unsafe"].contains(word))?;
    }
    let kinds = ["fn", "struct", "enum", "type", "trait"];
    let name = words_of(rest).next()?;
    kinds.contains(&kind).then_some((kind, name))
}

/// The text of a declaration up to its body or its end.
fn signature(lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(line);
        if line.ends_with(['{', ';', '}']) {
            break;
        }
    }
    text
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Adds the words of all code blocks of a Markdown text.
fn add_blocks<'a>(words: &mut BTreeSet<String>, markdown: impl Iterator<Item = &'a str>) {
    let mut is_inside = false;
    for line in markdown {
        if line.trim_start().starts_with("```") {
            is_inside = !is_inside;
        } else if is_inside {
            words.extend(words_of(line).map(str::to_owned));
        }
    }
}

/// The documentation comments of a source file, as Markdown.
fn documentation(source: &str) -> impl Iterator<Item = &str> {
    source
        .lines()
        .map(str::trim_start)
        .filter_map(|line| line.strip_prefix("///").or_else(|| line.strip_prefix("//!")))
}

/// All files under `directory` that end in `extension`.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|end| end == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn every_public_item_of_the_client_stands_in_an_example() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let client = root.join("crates/client");
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let is_test = |path: &Path| path.iter().any(|part| part == "tests" || part == "tests.rs");

    let mut shown = BTreeSet::new();
    for path in files(&client.join("examples"), "rs") {
        shown.extend(words_of(&read(&path)).map(str::to_owned));
    }
    let pages = [files(&root.join("docs/patterns"), "md"), files(&client.join("src"), "md")];
    for path in pages.into_iter().flatten().chain([root.join("README.md")]) {
        add_blocks(&mut shown, read(&path).lines());
    }
    let (mut items, mut hidden, mut used) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for path in files(&client.join("src"), "rs") {
        let source = read(&path);
        add_blocks(&mut shown, documentation(&source));
        if !is_test(&path) {
            let declared = Declared::read(&source);
            items.extend(declared.items.into_iter().map(|item| (path.clone(), item)));
            hidden.extend(declared.hidden);
            used.extend(declared.held);
        }
    }
    items.retain(|(_, item)| !hidden.contains(item.owner.as_ref().unwrap_or(&item.name)));

    for (_, function) in items.iter().filter(|(_, i)| !i.is_type() && shown.contains(&i.name)) {
        used.extend(words_of(&function.signature).map(str::to_owned));
    }
    let is_missing =
        |item: &Item| !(shown.contains(&item.name) || item.is_type() && used.contains(&item.name));
    let missing: Vec<_> = items
        .iter()
        .filter(|(_, item)| is_missing(item))
        .map(|(path, item)| item.place(path.strip_prefix(root).unwrap()))
        .collect();
    assert!(missing.is_empty(), "{} in no example:\n{}", missing.len(), missing.join("\n"));
    assert!(items.len() > 1000, "only {} items found", items.len());
}

#[test]
fn public_items_are_found() {
    let source = "\
/// Text.
pub struct Getter<T> {
    pub name: T,
}
impl<T: Into<Vec<u8>>> Getter<T> {
    pub(crate) fn inner(&self) {}
    pub async fn send(
        self,
    ) -> Result<Answer, Error> {
        let x = 1;
    }
    #[doc(hidden)]
    /// For derived code.
    pub const fn derived() {}
    pub const fn width() -> usize { 1 }
}
pub trait Source {
    const NAME: &str;
    type Item;
    fn next(&self) -> u8;
}
fn private() {}
#[doc(hidden)]
pub mod derived {
    pub use super::kept::{is_overtaken, Pair};
}
#[cfg(test)]
mod tests {
    pub fn helper() {}
}
";
    let declared = Declared::read(source);
    let found = declared.items.iter().map(|item| {
        (item.kind.as_str(), item.name.as_str(), item.owner.as_deref().unwrap_or_default())
    });
    let expected = [
        ("struct", "Getter", ""),
        ("fn", "send", "Getter"),
        ("fn", "width", "Getter"),
        ("fn", "next", "Source"),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let expected = "    pub async fn send(        self,    ) -> Result<Answer, Error> {";
    assert_eq!(declared.items[1].signature, expected);
    assert!(declared.held.contains("T") && !declared.held.contains("Vec"));
    assert!(declared.hidden.contains("Pair") && !declared.hidden.contains("helper"));
}

#[test]
fn only_words_in_code_blocks_are_shown() {
    let source =
        "/// Prose.\n/// ```\n/// let code = 1;\n/// ```\n/// More prose.\nfn other() {}\n";
    let mut words = BTreeSet::new();
    add_blocks(&mut words, documentation(source));
    assert_eq!(words.into_iter().collect::<Vec<_>>(), ["1", "code", "let"]);
}
