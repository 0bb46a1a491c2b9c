//! The folders of the server build on each other in one order, no modules depend on each other in a
//! circle, and the code shared by all services knows none of them. Between crates the compiler
//! enforces such boundaries; between modules these tests do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Words that only the folders of the services may contain.
const OF_SERVICES: [&str; 10] = [
    "lazuli_table",
    "crate::table",
    "TableName",
    "TableService",
    "TableApi",
    "lazuli_queue",
    "crate::queue",
    "QueueName",
    "QueueService",
    "QueueApi",
];

/// Names of services as text, which shared code must not contain either.
const NAMES: [&str; 2] = ["\"table\"", "\"queue\""];

/// The parts of the crate that know no service, as docs/ARCHITECTURE.md lists them: each may name the parts
/// before it.
const ORDER: [&str; 7] = ["headers", "refusal", "request_id", "error", "operation", "auth", "http"];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn sources(path: PathBuf) -> io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        found.extend(sources(entry?.path())?);
    }
    Ok(found)
}

/// The files of a part: a module, and the folder of that name.
fn files_of(part: &str) -> io::Result<Vec<PathBuf>> {
    let folder = src().join(part);
    let mut files = vec![folder.with_extension("rs")];
    if folder.is_dir() {
        files.extend(sources(folder)?);
    }
    Ok(files)
}

#[test]
fn no_part_names_one_that_builds_on_it() {
    let mut faults = Vec::new();
    for (place, part) in ORDER.into_iter().enumerate() {
        for file in files_of(part).unwrap() {
            let text = fs::read_to_string(&file).unwrap();
            // Tests of authentication start a TLS server to fetch keys from.
            let is_test = file.ends_with("tests.rs");
            let above = ORDER.iter().skip(place + 1).filter(|_| !is_test);
            let above = above.map(|part| format!("crate::{part}"));
            let is_shared = matches!(part, "auth" | "http") && !is_test;
            let names = NAMES.iter().filter(|_| is_shared);
            let of_services = OF_SERVICES.iter().chain(names).map(|word| (*word).to_owned());
            for word in above.chain(of_services) {
                if text.contains(&word) {
                    faults.push(format!("{} names {word}", file.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let page = include_str!("../../../docs/ARCHITECTURE.md");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let listed = ORDER.map(|part| format!("`{part}`")).join(", ");
    assert!(page.contains(&format!("in this order: {listed}.")), "{listed}");
}

/// The names on the way to a module; that of the crate itself is empty.
type Module = Vec<String>;

/// The modules that each module names, and one path by which it names each.
type Graph = BTreeMap<Module, BTreeMap<Module, String>>;

/// The modules of the server. A file is a module; tests may name anything.
fn module_graph() -> io::Result<Graph> {
    let src = src();
    let mut texts = BTreeMap::new();
    for file in sources(src.clone())? {
        let path = file.with_extension("");
        let names = path.iter().skip(src.iter().count());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        let module: Module = names.filter(|name| name != "lib").collect();
        texts.insert(module, fs::read_to_string(&file)?);
    }
    texts.retain(|module, _| module.last().is_none_or(|name| name != "tests"));
    let modules: BTreeSet<_> = texts.keys().cloned().collect();
    let named = |(module, text): (Module, String)| {
        let found = named_paths(&text).into_iter().filter_map(|path| {
            let other = named_module(&modules, &module, &path)?;
            (other != module).then(|| (other, path.join("::")))
        });
        let found = found.collect();
        (module, found)
    };
    Ok(texts.into_iter().map(named).collect())
}

/// The module that a path used in `module` belongs to; `None` if it is not of this crate.
fn named_module(modules: &BTreeSet<Module>, module: &Module, path: &[String]) -> Option<Module> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    let mut found = match path.first()?.as_str() {
        "crate" => Module::new(),
        "super" => module.iter().take(module.len() - ups).cloned().collect(),
        "self" => module.clone(),
        first => {
            let child = [module.as_slice(), &[first.to_owned()]].concat();
            modules.contains(&child).then(|| module.clone())?
        }
    };
    for name in path.iter().skip_while(|name| ["crate", "super", "self"].contains(&name.as_str())) {
        let child = [found.as_slice(), std::slice::from_ref(name)].concat();
        if !modules.contains(&child) {
            break;
        }
        found = child;
    }
    Some(found)
}

/// Every path of at least two names, with groups such as `a::{b, c}` expanded.
fn named_paths(text: &str) -> Vec<Vec<String>> {
    // Tests are at the end of a file.
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: Vec<_> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let mut found = Vec::new();
    // The prefix of the names in each open brace, and the path being read.
    let mut groups: Vec<Vec<String>> = vec![Vec::new()];
    let mut path: Vec<String> = Vec::new();
    let mut is_joined = false;
    for token in tokens(&code.join("\n")) {
        match token {
            "::" => is_joined = true,
            "{" if is_joined => {
                groups.push(std::mem::take(&mut path));
                is_joined = false;
            }
            name if name.starts_with(|first: char| first.is_alphanumeric() || first == '_') => {
                if !is_joined {
                    let before = groups.last().cloned().unwrap_or_default();
                    found.push(std::mem::replace(&mut path, before));
                }
                path.push(name.to_owned());
                is_joined = false;
            }
            other => {
                found.push(std::mem::take(&mut path));
                match other {
                    "{" => groups.push(Vec::new()),
                    "}" => drop(groups.pop()),
                    _ => {}
                }
                is_joined = false;
            }
        }
    }
    found.retain(|path| path.len() > 1);
    found
}

/// Names, `::`, and other characters one by one.
fn tokens(code: &str) -> Vec<&str> {
    let is_of_name = |next: char| next.is_alphanumeric() || next == '_';
    let mut found = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            first if is_of_name(first) => rest.find(|next| !is_of_name(next)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            other => other.len_utf8(),
        };
        let (token, after) = rest.split_at(len);
        found.push(token);
        rest = after.trim_start();
    }
    found
}

/// Removes the modules that name none of the others, and those that no other names, until only
/// circles and the modules between them are left.
fn circles(mut graph: Graph) -> Graph {
    loop {
        let before = graph.len();
        let named: BTreeSet<_> = graph.values().flat_map(BTreeMap::keys).cloned().collect();
        graph.retain(|module, names| !names.is_empty() && named.contains(module));
        let left: BTreeSet<_> = graph.keys().cloned().collect();
        graph.values_mut().for_each(|names| names.retain(|other, _| left.contains(other)));
        if graph.len() == before {
            return graph;
        }
    }
}

#[test]
fn no_modules_name_each_other_in_a_circle() {
    let graph = module_graph().unwrap();
    let edges: usize = graph.values().map(BTreeMap::len).sum();
    assert!(graph.len() > 60 && edges > 300, "{} modules, {edges} edges", graph.len());
    let left = circles(graph);
    let line = |module: &Module, other: &Module, path: &str| {
        format!("{} names {} as {path}", module.join("::"), other.join("::"))
    };
    let lines: Vec<_> = left
        .iter()
        .flat_map(|(module, names)| names.iter().map(|(other, path)| line(module, other, path)))
        .collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn paths_are_found_as_code_writes_them() {
    let text = "use crate::auth::{self, explain::{Keyring, Mistake}, permit};\n\
                // crate::not::this\n\
                fn a(b: super::C) -> Vec<keys::Key> { keys::find(1); x }";
    let found: BTreeSet<_> = named_paths(text).iter().map(|path| path.join("::")).collect();
    let expected = [
        "crate::auth::self",
        "crate::auth::explain::Keyring",
        "crate::auth::explain::Mistake",
        "crate::auth::permit",
        "super::C",
        "keys::Key",
        "keys::find",
    ];
    assert_eq!(found, expected.map(str::to_owned).into());
}

#[test]
fn circles_are_found() {
    let module = |name: &str| vec![name.to_owned()];
    let names = |others: &[&str]| others.iter().map(|o| (module(o), String::new())).collect();
    let graph = |edges: &[(&str, &[&str])]| {
        edges.iter().map(|(name, others)| (module(name), names(others))).collect()
    };
    let straight = graph(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert!(circles(straight).is_empty());
    let round = graph(&[("a", &["b"]), ("b", &["c"]), ("c", &["b", "d"]), ("d", &[])]);
    let left: Vec<_> = circles(round).into_keys().collect();
    assert_eq!(left, [module("b"), module("c")]);
}
