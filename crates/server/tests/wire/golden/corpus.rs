//! Reads recordings from the files below `golden/`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// One recorded test, its texts still holding placeholders.
pub(super) struct Recording {
    pub(super) name: String,
    /// Whether bodies are as on the wire; some recorders re-serialised JSON and lost its escapes.
    pub(super) verbatim: bool,
    /// Tables that existed before the first step.
    pub(super) tables: Vec<String>,
    pub(super) entities: Vec<Entity>,
    /// Elements of StorageServiceProperties in effect.
    pub(super) properties: String,
    pub(super) steps: Vec<Step>,
}

/// An entity that existed before the first step.
pub(super) struct Entity {
    pub(super) table: String,
    pub(super) json: String,
    pub(super) etag: Option<String>,
}

#[derive(Default)]
pub(super) struct Step {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) credential: Credential,
    pub(super) secondary: bool,
    pub(super) request: Message,
    pub(super) status: u16,
    pub(super) answer: Message,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Credential {
    #[default]
    AccountKey,
    Sas,
    None,
    /// A directory identity that was refused for lack of permission; cannot be replayed with a key.
    Token,
    /// A directory identity, whose response an account key would not get (T-9.23a).
    Bearer,
}

/// Lower-case headers, and a body.
#[derive(Default)]
pub(super) struct Message {
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<String>,
}

impl Message {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn text(&self) -> &str {
        self.body.as_deref().unwrap_or_default()
    }

    pub(super) fn is_multipart(&self) -> bool {
        self.header("content-type").is_some_and(|text| text.starts_with("multipart"))
    }
}

/// The recordings of a suite that can be replayed.
pub(super) fn load(suite: &str) -> Vec<Recording> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden");
    let sets = header_sets(&read(&root.join("headers.txt")));
    let entries = std::fs::read_dir(root.join(suite)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut recordings = Vec::new();
    for file in files {
        let text = read(&file);
        let tests = text.split("\n== ").map(|test| test.strip_prefix("== ").unwrap_or(test));
        recordings.extend(tests.map(|test| Reader::new(&sets).read(suite, test)));
    }
    let refused = |step: &Step| step.credential == Credential::Token;
    recordings.retain(|recording| !recording.steps.iter().any(refused));
    recordings
}

fn read(file: &Path) -> String {
    let text = std::fs::read_to_string(file);
    text.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

type HeaderSets = HashMap<String, Vec<(String, String)>>;

fn header_sets(text: &str) -> HeaderSets {
    let set = |line: &str| {
        let (name, headers) = line.split_once(' ').unwrap();
        (name.to_owned(), headers.split(" | ").map(header).collect())
    };
    text.lines().map(set).collect()
}

fn header(text: &str) -> (String, String) {
    let (name, value) = text.split_once(": ").unwrap_or_else(|| panic!("no header: {text}"));
    (name.to_owned(), value.to_owned())
}

/// Reads one test line by line.
struct Reader<'a> {
    sets: &'a HeaderSets,
    steps: Vec<Step>,
    /// Whether the lines belong to a response.
    in_answer: bool,
    /// The bodies read so far, which later ones may refer to.
    bodies: Vec<String>,
    body: String,
}

impl<'a> Reader<'a> {
    fn new(sets: &'a HeaderSets) -> Self {
        Self { sets, steps: Vec::new(), in_answer: false, bodies: Vec::new(), body: String::new() }
    }

    fn read(mut self, suite: &str, test: &str) -> Recording {
        let mut lines = test.lines();
        let heading: Vec<&str> = lines.next().unwrap().split(' ').collect();
        let mut recording = Recording {
            name: format!("{suite}/{}", heading[0]),
            verbatim: heading[2] == "vcr",
            tables: Vec::new(),
            entities: Vec::new(),
            properties: String::new(),
            steps: Vec::new(),
        };
        for line in lines {
            if !self.read_step(line) {
                let (word, rest) = line.split_once(' ').unwrap();
                recording.set_up(word, rest);
            }
        }
        recording.steps = self.steps;
        recording
    }

    /// Reads a line of a step; `false` if the line does not belong to one.
    fn read_step(&mut self, line: &str) -> bool {
        let Some(mark) = line.chars().next() else { return false };
        let rest = &line[mark.len_utf8()..];
        match mark {
            '>' => self.begin_request(rest),
            '<' => self.begin_answer(rest),
            '+' => self.add_header(rest),
            '|' => self.add_line(rest, "\r\n"),
            '/' => self.add_line(rest, "\n"),
            '.' => self.end_body(rest),
            '=' => {
                let number: usize = rest.parse().unwrap();
                self.message().body = Some(self.bodies[number - 1].clone());
            }
            _ => return false,
        }
        true
    }

    fn begin_request(&mut self, line: &str) {
        self.in_answer = false;
        // A placeholder in the target holds a space, so the words around it are split off first.
        let (method, rest) = line.trim_start().split_once(' ').unwrap();
        let (target, flags) = rest.rsplit_once(" q").unwrap();
        let mut flags = flags.split(' ');
        let set = format!("q{}", flags.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut step = Step {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            ..Step::default()
        };
        step.request.headers = self.sets[&set].clone();
        for flag in flags {
            match flag {
                "sas" => step.credential = Credential::Sas,
                "none" => step.credential = Credential::None,
                "token" => step.credential = Credential::Token,
                "bearer" => step.credential = Credential::Bearer,
                "secondary" => step.secondary = true,
                other => panic!("unknown word {other}"),
            }
        }
        self.steps.push(step);
    }

    fn begin_answer(&mut self, line: &str) {
        self.in_answer = true;
        let (status, set) = line.trim_start().split_once(' ').unwrap();
        let step = self.steps.last_mut().unwrap();
        step.status = status.parse().unwrap();
        step.answer.headers = self.sets[set].clone();
    }

    fn add_header(&mut self, line: &str) {
        let (name, mut value) = header(line);
        if value == "{location}" {
            value = self.message().header("location").unwrap().to_owned();
        }
        self.message().headers.push((name, value));
    }

    fn add_line(&mut self, line: &str, end: &str) {
        self.body.push_str(line);
        self.body.push_str(end);
    }

    fn end_body(&mut self, line: &str) {
        self.body.push_str(line);
        let body = std::mem::take(&mut self.body);
        self.bodies.push(body.clone());
        self.message().body = Some(body);
    }

    fn message(&mut self) -> &mut Message {
        let step = self.steps.last_mut().unwrap();
        if self.in_answer { &mut step.answer } else { &mut step.request }
    }
}

impl Recording {
    fn set_up(&mut self, word: &str, rest: &str) {
        match word {
            "table" => self.tables.push(rest.to_owned()),
            "entity" => {
                let (table, json) = rest.split_once(' ').unwrap();
                let (table, json) = (table.to_owned(), json.to_owned());
                self.entities.push(Entity { table, json, etag: None });
            }
            "etag" => self.entities.last_mut().unwrap().etag = Some(rest.to_owned()),
            "properties" => self.properties = rest.to_owned(),
            other => panic!("unknown line {other}"),
        }
    }
}
