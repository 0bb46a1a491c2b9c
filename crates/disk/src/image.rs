//! A directory tree at rest.

use crate::content::Content;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

/// Paths below the root, parents first; a directory has no content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Image(pub BTreeMap<String, Option<Arc<Content>>>);

impl Image {
    pub fn load(root: &Path) -> Result<Self> {
        let mut image = Self::default();
        image.load_below(root, "")?;
        Ok(image)
    }

    fn load_below(&mut self, directory: &Path, prefix: &str) -> Result<()> {
        let context = || format!("read {}", directory.display());
        for entry in fs::read_dir(directory).with_context(context)? {
            let entry = entry.with_context(context)?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.file_type().with_context(context)?.is_dir() {
                self.0.insert(path.clone(), None);
                self.load_below(&entry.path(), &format!("{path}/"))?;
            } else {
                let content = Content::load(&entry.path()).with_context(context)?;
                self.0.insert(path, Some(Arc::new(content)));
            }
        }
        Ok(())
    }

    /// Makes `root` contain exactly this.
    pub fn save(&self, root: &Path) -> Result<()> {
        let context = || format!("write {}", root.display());
        if root.exists() {
            fs::remove_dir_all(root).with_context(context)?;
        }
        fs::create_dir_all(root).with_context(context)?;
        for (path, content) in &self.0 {
            let path = root.join(path);
            match content {
                None => fs::create_dir(path),
                Some(content) => content.save(&path),
            }
            .with_context(context)?;
        }
        Ok(())
    }

    /// A number that differs between images.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// The first path at which two images differ.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let paths = self.0.keys().chain(other.0.keys());
        paths.into_iter().find(|path| self.0.get(*path) != other.0.get(*path)).cloned()
    }
}
