//! A model of a disk: which changes of a program are durable, and what a power loss may leave.
//!
//! A change of a file's content is durable once the file was synced after it, a change of a name
//! once the directory was. Until then it may survive or not, entirely or in part, independently of
//! earlier or later changes. Data of a failed sync is not made durable by a later one: systems drop
//! dirty pages once they have reported the failure to write them.

use crate::content::Content;
use crate::image::Image;
use crate::trace::Event;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// What file systems promise about names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// What POSIX promises: a name is durable once its directory was synced, and not before.
    Strict,
    /// What ext4, XFS and other journalling file systems do: name changes become durable in order,
    /// and syncing any file makes all earlier ones durable.
    Journalled,
}

type Node = usize;
const ROOT: Node = 0;

#[derive(Clone, Debug)]
pub struct Disk {
    names: Names,
    nodes: Vec<Stored>,
    inodes: HashMap<u64, Node>,
    unsynced: Vec<Change>,
    /// Syncs in progress, by thread: which node, and how many changes there had been.
    syncing: HashMap<u64, (Node, u64)>,
    changes: u64,
}

#[derive(Clone, Debug)]
enum Stored {
    Directory { live: BTreeMap<String, Node>, durable: BTreeMap<String, Node> },
    File { live: Arc<Content>, durable: Arc<Content> },
}

#[derive(Clone, Debug)]
pub struct Change {
    number: u64,
    /// The sync that should have made it durable failed.
    forgotten: bool,
    pub(crate) what: Effect,
}

#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Entries of directories that change together.
    Names(Vec<(Node, String, Option<Node>)>),
    Write {
        file: Node,
        offset: u64,
        data: Arc<[u8]>,
    },
    Length {
        file: Node,
        length: u64,
    },
}

/// The part of one change that survives.
#[derive(Clone, Debug)]
pub enum Remainder {
    Nothing,
    Everything,
    /// Of a write: the bytes of these ranges, and optionally the new length of the file.
    Pieces {
        pieces: Vec<std::ops::Range<usize>>,
        length: bool,
    },
}

impl Disk {
    /// A disk that contains `image`, all of it durable, and whose files are at `root`.
    pub fn new(names: Names, image: &Image, root: &Path) -> Result<Self> {
        let empty = Stored::Directory { live: BTreeMap::new(), durable: BTreeMap::new() };
        let mut disk = Self {
            names,
            nodes: vec![empty],
            inodes: HashMap::new(),
            unsynced: Vec::new(),
            syncing: HashMap::new(),
            changes: 0,
        };
        for (path, content) in &image.0 {
            let node = disk.add(content.clone());
            let (directory, name) = disk.place(path)?;
            disk.link(directory, &name, Some(node), true);
        }
        disk.moved_to(root)?;
        Ok(disk)
    }

    /// The same disk with its live files at `root`, for a program that continues there after
    /// another was killed.
    pub fn moved_to(&mut self, root: &Path) -> Result<()> {
        self.inodes.clear();
        self.syncing.clear();
        let paths: Vec<(String, Node)> = self.live_paths();
        let all = paths.iter().map(|(path, node)| (root.join(path), *node));
        for (path, node) in all.chain([(root.to_path_buf(), ROOT)]) {
            let found = path.metadata().with_context(|| format!("look at {}", path.display()))?;
            self.inodes.insert(found.ino(), node);
        }
        Ok(())
    }

    pub fn apply(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Create { path, inode } => self.create(path, *inode, true),
            Event::MakeDirectory { path, inode } => self.create(path, *inode, false),
            Event::Write { inode, offset, data } => {
                let (file, offset, data) = (self.node(*inode)?, *offset, data.clone());
                self.change(Effect::Write { file, offset, data });
                Ok(())
            }
            Event::SetLength { inode, length } => {
                let (file, length) = (self.node(*inode)?, *length);
                self.change(Effect::Length { file, length });
                Ok(())
            }
            Event::Rename { from, to } => self.rename(from, to),
            Event::Remove { path } => {
                let (directory, name) = self.place(path)?;
                self.change(Effect::Names(vec![(directory, name, None)]));
                Ok(())
            }
            Event::SyncBegins { inode, thread } => {
                let node = self.node(*inode)?;
                self.syncing.insert(*thread, (node, self.changes));
                Ok(())
            }
            Event::SyncEnds { thread, .. } => {
                let (node, before) = self.syncing.remove(thread).context("a sync without start")?;
                self.synced(node, before);
                Ok(())
            }
            Event::SyncFails { thread, .. } => {
                let (node, before) = self.syncing.remove(thread).context("a sync without start")?;
                for change in &mut self.unsynced {
                    change.forgotten |= change.number < before && change.what.is_content_of(node);
                }
                Ok(())
            }
            Event::Begun { .. } | Event::Acknowledged { .. } => Ok(()),
        }
    }

    /// What the program sees, and what remains if it is killed.
    pub fn live(&self) -> Image {
        let mut image = Image::default();
        for (path, node) in self.live_paths() {
            let content = match self.nodes.get(node) {
                Some(Stored::File { live, .. }) => Some(live.clone()),
                _ => None,
            };
            image.0.insert(path, content);
        }
        image
    }

    pub(crate) fn unsynced(&self) -> &[Change] {
        &self.unsynced
    }

    pub(crate) fn names(&self) -> Names {
        self.names
    }

    /// What a power loss leaves, if `left` survives of each unsynced change.
    pub fn after_loss(&self, left: &[Remainder]) -> Image {
        let mut after = self.clone();
        for (change, left) in self.unsynced.iter().zip(left) {
            after.keep(&change.what, left);
        }
        let mut image = Image::default();
        after.collect_durable(ROOT, "", &mut image);
        image
    }

    fn collect_durable(&self, directory: Node, prefix: &str, image: &mut Image) {
        let Some(Stored::Directory { durable, .. }) = self.nodes.get(directory) else {
            return;
        };
        for (name, node) in durable {
            let path = format!("{prefix}{name}");
            match self.nodes.get(*node) {
                Some(Stored::File { durable, .. }) => {
                    image.0.insert(path, Some(durable.clone()));
                }
                // A crash must not leave a directory inside itself: each has one parent at a time.
                _ => {
                    image.0.insert(path.clone(), None);
                    self.collect_durable(*node, &format!("{path}/"), image);
                }
            }
        }
    }

    fn create(&mut self, path: &str, inode: u64, is_file: bool) -> Result<()> {
        let node = self.add(is_file.then(Arc::default));
        self.inodes.insert(inode, node);
        let (directory, name) = self.place(path)?;
        self.change(Effect::Names(vec![(directory, name, Some(node))]));
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let (from_directory, from_name) = self.place(from)?;
        let (to_directory, to_name) = self.place(to)?;
        let node = self.entry(from_directory, &from_name);
        let node = node.with_context(|| format!("{from} is renamed and was never made"))?;
        self.change(Effect::Names(vec![
            (from_directory, from_name, None),
            (to_directory, to_name, Some(node)),
        ]));
        Ok(())
    }

    fn add(&mut self, content: Option<Arc<Content>>) -> Node {
        self.nodes.push(match content {
            Some(content) => Stored::File { live: content.clone(), durable: content },
            None => Stored::Directory { live: BTreeMap::new(), durable: BTreeMap::new() },
        });
        self.nodes.len() - 1
    }

    /// Applies the change, to be made durable later.
    fn change(&mut self, what: Effect) {
        match &what {
            Effect::Names(edits) => {
                for (directory, name, node) in edits {
                    self.link(*directory, name, *node, false);
                }
            }
            Effect::Write { file, offset, data } => {
                self.edit(*file, false, |content| content.write(*offset, data));
            }
            Effect::Length { file, length } => {
                self.edit(*file, false, |content| content.set_length(*length));
            }
        }
        self.unsynced.push(Change { number: self.changes, forgotten: false, what });
        self.changes += 1;
    }

    fn synced(&mut self, node: Node, before: u64) {
        let names_too = self.names == Names::Journalled;
        let (done, left) = std::mem::take(&mut self.unsynced).into_iter().partition(|change| {
            let asked = match &change.what {
                Effect::Names(edits) => names_too || edits.iter().any(|(dir, ..)| *dir == node),
                _ => change.what.is_content_of(node),
            };
            asked && change.number < before && !change.forgotten
        });
        self.unsynced = left;
        let done: Vec<Change> = done;
        for change in &done {
            self.keep(&change.what, &Remainder::Everything);
        }
        // Durably overwritten content cannot reappear.
        self.unsynced
            .retain(|old| !old.forgotten || !done.iter().any(|new| new.what.covers(&old.what)));
    }

    /// Makes the surviving part of a change durable.
    fn keep(&mut self, what: &Effect, left: &Remainder) {
        match (what, left) {
            (_, Remainder::Nothing) => {}
            (Effect::Names(edits), _) => {
                for (directory, name, node) in edits {
                    self.link(*directory, name, *node, true);
                }
            }
            (Effect::Length { file, length }, _) => {
                self.edit(*file, true, |content| content.set_length(*length));
            }
            (Effect::Write { file, offset, data }, Remainder::Everything) => {
                self.edit(*file, true, |content| content.write(*offset, data));
            }
            (Effect::Write { file, offset, data }, Remainder::Pieces { pieces, length }) => {
                self.edit(*file, true, |content| {
                    for piece in pieces {
                        let bytes = data.get(piece.clone()).unwrap_or_default();
                        content.write(offset + piece.start as u64, bytes);
                    }
                    let end = offset + data.len() as u64;
                    if *length && content.length() < end {
                        content.set_length(end);
                    }
                });
            }
        }
    }

    fn edit(&mut self, file: Node, for_good: bool, edit: impl Fn(&mut Content)) {
        if let Some(Stored::File { live, durable }) = self.nodes.get_mut(file) {
            edit(Arc::make_mut(if for_good { durable } else { live }));
        }
    }

    /// Changes the durable names if `for_good`, else the live ones; while the disk is being
    /// created, `for_good` changes both.
    fn link(&mut self, directory: Node, name: &str, node: Option<Node>, for_good: bool) {
        let is_new = self.changes == 0;
        if let Some(Stored::Directory { live, durable }) = self.nodes.get_mut(directory) {
            let both = [(live, is_new || !for_good), (durable, for_good)];
            for (names, _) in both.into_iter().filter(|(_, wanted)| *wanted) {
                match node {
                    Some(node) => names.insert(name.to_owned(), node),
                    None => names.remove(name),
                };
            }
        }
    }

    fn node(&self, inode: u64) -> Result<Node> {
        let node = self.inodes.get(&inode).copied();
        node.with_context(|| format!("the trace names inode {inode}, which was never made"))
    }

    fn entry(&self, directory: Node, name: &str) -> Option<Node> {
        match self.nodes.get(directory) {
            Some(Stored::Directory { live, .. }) => live.get(name).copied(),
            _ => None,
        }
    }

    /// The directory that a path leads to, and the name in it.
    fn place(&self, path: &str) -> Result<(Node, String)> {
        let mut parts: Vec<&str> = path.split('/').collect();
        let name = parts.pop().unwrap_or_default().to_owned();
        let directory = parts.into_iter().try_fold(ROOT, |node, part| self.entry(node, part));
        Ok((directory.with_context(|| format!("{path} has no directory"))?, name))
    }

    fn live_paths(&self) -> Vec<(String, Node)> {
        let mut paths = Vec::new();
        let mut open = vec![(String::new(), ROOT)];
        while let Some((prefix, directory)) = open.pop() {
            if let Some(Stored::Directory { live, .. }) = self.nodes.get(directory) {
                for (name, node) in live {
                    let path = format!("{prefix}{name}");
                    open.push((format!("{path}/"), *node));
                    paths.push((path, *node));
                }
            }
        }
        paths
    }
}

impl Effect {
    fn is_content_of(&self, node: Node) -> bool {
        matches!(self, Self::Write { file, .. } | Self::Length { file, .. } if *file == node)
    }

    /// Whether this write covers `old` completely.
    fn covers(&self, old: &Self) -> bool {
        let range = |what: &Self| match what {
            Self::Write { file, offset, data } => {
                Some((*file, *offset, offset + data.len() as u64))
            }
            _ => None,
        };
        match (range(self), range(old)) {
            (Some((file, start, end)), Some((old_file, old_start, old_end))) => {
                file == old_file && start <= old_start && old_end <= end
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
