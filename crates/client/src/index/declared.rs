//! Indexes declared at run time (P-0.5): the declaration as a value, which a program can print and which another
//! program, without the type, can read.

use super::template::{Part, Parts, Template};
use super::{IndexDef, IndexProjection};
use crate::codec::INDEX_MARK;
use crate::encryption::declares_secrets;
use crate::entity::{Entity, TableEntity};
use crate::error::Error;
use crate::kind::{Kind, version_of};
use crate::large::{DIGEST, LENGTH};
use crate::property::{PropertyDef, Storage};
use crate::value::Value;
use crate::write_ids::WRITE_IDS;
use lazuli_model::{EntityKey, TableName};
use serde::{Deserialize, Serialize};

/// Describes which entities of a table have copies, and where: a type's index declarations as a value.
///
/// [`IndexLayout::of`] makes one from a type, [`IndexLayout::new`] from strings. It implements serde, so that a
/// program can print the layout of its types for `lazuli table index`:
///
/// ```
/// # use lazuli_client::patterns::IndexLayout;
/// let layout = IndexLayout::new("Employee", "{department}", "empid_{id:06}")?
///     .unique("email", "email_{EmailAddress}")?
///     .index("last_name", "last_{LastName}_{id:06}")?;
/// assert_eq!(layout.names().collect::<Vec<_>>(), ["email", "last_name"]);
/// # Ok::<(), lazuli_client::Error>(())
/// ```
///
/// A field in a template is a field of the key, or otherwise a property of the entity. The copies contain all
/// properties of the entity, unless the index or the layout says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "LayoutText", into = "LayoutText")]
pub struct IndexLayout {
    kind: String,
    discriminator: String,
    version: u32,
    partition: Template,
    row: Template,
    /// The properties of the type; `None` if it keeps unknown ones.
    properties: Option<Vec<String>>,
    indexes: Vec<DeclaredIndex>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct DeclaredIndex {
    name: String,
    row: Template,
    partition: Option<Template>,
    table: Option<String>,
    is_unique: bool,
    /// The properties in the copies; `None` for all.
    project: Option<Vec<String>>,
}

/// A copy that an entity should have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredCopy {
    /// Its value of `_ix`.
    pub(crate) mark: String,
    pub(crate) is_unique: bool,
    /// The table, if it is not the entity's table.
    pub(crate) table: Option<String>,
    pub(crate) key: EntityKey,
    pub(crate) entity: Entity,
}

/// The serialized form of a layout.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LayoutText {
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    discriminator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    partition: String,
    row: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    properties: Option<Vec<String>>,
    #[serde(default)]
    indexes: Vec<IndexText>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexText {
    name: String,
    row: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unique: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<Vec<String>>,
}

impl IndexLayout {
    /// A layout for entities of a kind with these key templates, without indexes. `_ix` of the copies begins with the
    /// kind; the entities have it in `EntityType`, if they have that property.
    pub fn new(kind: &str, partition: &str, row: &str) -> Result<Self, Error> {
        if kind.is_empty() || kind.contains(['/', '.']) {
            return Err(refused("the kind", "it is a name without `/` and `.`"));
        }
        Ok(Self {
            kind: kind.to_owned(),
            discriminator: Kind::PROPERTY.to_owned(),
            version: 1,
            partition: template("the partition template", partition)?,
            row: template("the row template", row)?,
            properties: None,
            indexes: Vec::new(),
        })
    }

    /// Adds an index in the entities' partition, whose row template ends with the fields of their key (P-1).
    pub fn index(self, name: &str, row: &str) -> Result<Self, Error> {
        self.with(DeclaredIndex::new(name, row)?)
    }

    /// Adds a unique index in the entities' partition: each value belongs to one entity (P-1).
    pub fn unique(self, name: &str, row: &str) -> Result<Self, Error> {
        self.with(DeclaredIndex { is_unique: true, ..DeclaredIndex::new(name, row)? })
    }

    /// The names of the indexes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.indexes.iter().map(|index| index.name.as_str())
    }

    /// The layout of a type. Fails for a type whose rows another program cannot interpret: one with hand-written keys
    /// or encrypted properties.
    pub fn of<T: TableEntity>() -> Result<Self, Error> {
        if T::LAYOUT.partition.is_empty() {
            return Err(refused("the type", "it writes its keys by hand"));
        }
        if declares_secrets(T::PROPERTIES) {
            return Err(refused(
                "the type",
                "it encrypts properties; its own program can verify it",
            ));
        }
        let mark = T::INDEXES.first().and_then(|def| def.mark.split_once('/'));
        let kind = T::KIND.map(|kind| kind.name).or(mark.map(|(kind, _)| kind));
        let kind = kind.ok_or_else(|| refused("the type", "it has no index"))?;
        let renamed = |what: &str, text: &str| {
            let typed = |field: &str| {
                T::KEY_TYPES.iter().find(|(known, _)| *known == field).map(|(_, ty)| *ty)
            };
            let renamed = Template::renamed(text, name_of::<T>, typed);
            renamed.map_err(|reason| refused(what, &reason))
        };
        let mut layout = Self::new(kind, "", "")?;
        layout.partition = renamed("the partition template", T::LAYOUT.partition)?;
        layout.row = renamed("the row template", T::LAYOUT.row)?;
        if let Some(kind) = T::KIND {
            (layout.discriminator, layout.version) = (kind.property.to_owned(), kind.version);
        }
        if !T::KEEPS_UNKNOWN {
            layout.properties =
                Some(T::PROPERTIES.iter().flat_map(|def| patterns(def, "")).collect());
        }
        for def in T::INDEXES {
            layout = layout.with(DeclaredIndex {
                name: def.name.to_owned(),
                row: renamed(def.name, def.row)?,
                partition: def.partition.map(|text| renamed(def.name, text)).transpose()?,
                table: def.table.map(str::to_owned),
                is_unique: def.is_unique,
                project: projected::<T>(def),
            })?;
        }
        Ok(layout)
    }

    /// Adds an index; an error if its copies could be mistaken for other rows (P-0.4, P-1.2).
    fn with(mut self, index: DeclaredIndex) -> Result<Self, Error> {
        let fault = |reason: &str| Err(refused(&format!("the index {}", index.name), reason));
        if self.indexes.iter().any(|known| known.name == index.name) {
            return fault("another one has its name");
        }
        if index.is_local() {
            let others = self.indexes.iter().filter(|other| other.is_local());
            let mut others = others.map(|other| other.row.prefix()).chain([self.row.prefix()]);
            let own = index.row.prefix();
            if own.is_empty() || self.row.prefix().is_empty() {
                return fault("its row template, and that of the entities, begin with a literal");
            }
            if others.any(|other| own.starts_with(other) || other.starts_with(own)) {
                return fault("its row keys begin like those of another index, or of the entities");
            }
        } else if index.table.is_none() {
            let partition = index.partition.as_ref().map_or("", Template::prefix);
            let own = self.partition.prefix();
            let is_apart = !partition.is_empty()
                && !own.is_empty()
                && !partition.starts_with(own)
                && !own.starts_with(partition);
            if !is_apart && index.row.prefix() == self.row.prefix() {
                return fault("its keys begin like those of the entities");
            }
        }
        if !index.is_unique {
            let place = index.partition.as_ref().unwrap_or(&self.partition);
            let by = [&index.row, place];
            let missing = self.partition.untold(by).or_else(|| self.row.untold(by));
            if let Some(missing) = missing {
                return fault(&format!(
                    "two entities could have one copy: its keys lack `{{{missing}}}`; or it is unique"
                ));
            }
        }
        self.indexes.push(index);
        Ok(self)
    }

    /// The values of `_ix` in copies.
    pub(crate) fn marks(&self) -> Vec<String> {
        self.names().map(|name| self.mark(name)).collect()
    }

    /// The value of `_ix` in the copies of an index.
    pub(crate) fn mark(&self, name: &str) -> String {
        format!("{}/{name}", self.kind)
    }

    /// The tables of copies outside the entities' table.
    pub(crate) fn other_tables(&self) -> Vec<String> {
        let mut tables: Vec<String> = Vec::new();
        for table in self.indexes.iter().filter_map(|index| index.table.as_ref()) {
            if !tables.contains(table) {
                tables.push(table.clone());
            }
        }
        tables
    }

    /// The copies that a stored entity should have; none if it has another kind. `Err` says why that cannot be
    /// determined.
    pub(crate) fn copies(&self, entity: &Entity) -> Result<Vec<DeclaredCopy>, String> {
        // A copy, or a row of a move, is not an entity (P-0.3).
        if entity.value(INDEX_MARK).is_some() {
            return Ok(Vec::new());
        }
        let of_key =
            match (self.partition.read(entity.partition_key()), self.row.read(entity.row_key())) {
                (Some(mut partition), Some(row)) => {
                    partition.extend(row);
                    Some(partition)
                }
                _ => None,
            };
        let parts = match (entity.value(&self.discriminator), of_key) {
            (Some(Value::String(text)), parts) => match version_of(&self.kind, text) {
                None => return Ok(Vec::new()),
                Some(version) if version != self.version => {
                    return Err(format!(
                        "it is of version {version}, the layout of {}",
                        self.version
                    ));
                }
                Some(_) => parts.ok_or("its key is not of the templates")?,
            },
            (_, Some(parts)) => parts,
            (_, None) => return Ok(Vec::new()),
        };
        let mut copies = Vec::with_capacity(self.indexes.len());
        for index in &self.indexes {
            copies.extend(self.copy(index, entity, &parts)?);
        }
        Ok(copies)
    }

    fn copy(
        &self,
        index: &DeclaredIndex,
        entity: &Entity,
        of_key: &Parts,
    ) -> Result<Option<DeclaredCopy>, String> {
        let mut parts = of_key.clone();
        let partition = index.partition.as_ref().unwrap_or(&self.partition);
        for name in index.row.fields().chain(partition.fields()) {
            if parts.contains_key(name) {
                continue;
            }
            // An entity without the property has no copy (P-1.9).
            let Some(value) = entity.value(name) else { return Ok(None) };
            let part = Part::of(value)
                .ok_or_else(|| format!("`{name}` is of a type that keys cannot hold"))?;
            parts.insert(name.to_owned(), part);
        }
        let written = |template: &Template| template.write(|name| Ok(parts.get(name)));
        let (Some(at), Some(row)) = (written(partition)?, written(&index.row)?) else {
            return Ok(None);
        };
        let key = EntityKey::parse(&at, &row).map_err(|error| error.to_string())?;
        let mark = self.mark(&index.name);
        let mut copy = Entity::new(at, row).with(INDEX_MARK, mark.clone());
        if entity.partition_key() != copy.partition_key() {
            copy.set("_pk", entity.partition_key());
        }
        copy.set("_rk", entity.row_key());
        for (name, value) in entity.properties() {
            if name != self.discriminator && name != WRITE_IDS && self.is_held(index, name) {
                copy.set(name.to_owned(), value.clone());
            }
        }
        let (is_unique, table) = (index.is_unique, index.table.clone());
        Ok(Some(DeclaredCopy { mark, is_unique, table, key, entity: copy }))
    }

    /// Whether copies of an index contain a property.
    fn is_held(&self, index: &DeclaredIndex, name: &str) -> bool {
        let matches = |names: &[String]| names.iter().any(|pattern| matches(pattern, name));
        self.properties.as_deref().is_none_or(matches)
            && index.project.as_deref().is_none_or(matches)
    }
}

impl DeclaredIndex {
    fn new(name: &str, row: &str) -> Result<Self, Error> {
        if name.is_empty() || name.contains('/') {
            return Err(refused("the name of an index", "it is not empty, and has no `/`"));
        }
        let row = template(&format!("the row template of the index {name}"), row)?;
        let name = name.to_owned();
        Ok(Self { name, row, partition: None, table: None, is_unique: false, project: None })
    }

    /// Whether one transaction writes the entity and its copy (P-1).
    fn is_local(&self) -> bool {
        self.partition.is_none() && self.table.is_none()
    }
}

fn refused(what: &str, reason: &str) -> Error {
    Error::config(format!("{what}: {reason}"))
}

fn template(what: &str, text: &str) -> Result<Template, Error> {
    Template::parse(text).map_err(|reason| refused(what, &reason))
}

/// The name of a type's field in a table: its property, or its own name if it is only in keys.
fn name_of<T: TableEntity>(field: &str) -> String {
    let property = T::PROPERTIES.iter().find(|property| property.field == field);
    match property {
        Some(property) if property.storage != Storage::Key => property.name.to_owned(),
        _ => field.to_owned(),
    }
}

/// The properties in the copies of an index; `None` for all.
fn projected<T: TableEntity>(def: &IndexDef) -> Option<Vec<String>> {
    let fields = match def.projection {
        IndexProjection::All => return None,
        IndexProjection::Keys => return Some(Vec::new()),
        IndexProjection::Fields(fields) => fields,
    };
    let is_held = |property: &&PropertyDef| {
        fields.contains(&property.field) || def.fields.contains(&property.field)
    };
    Some(T::PROPERTIES.iter().filter(is_held).flat_map(|property| patterns(property, "")).collect())
}

/// The names of the properties of a field, with `#` for a number.
fn patterns(property: &PropertyDef, before: &str) -> Vec<String> {
    let name = format!("{before}{}", property.name);
    match property.storage {
        Storage::Key => Vec::new(),
        Storage::Single => vec![name],
        Storage::Chunked => vec![format!("{name}_#"), name],
        Storage::Large(_) => {
            let [parts, length, digest] = ["_#", LENGTH, DIGEST].map(|end| format!("{name}{end}"));
            vec![name, parts, length, digest]
        }
        Storage::Series { .. } => vec![format!("{name}#")],
        Storage::Flattened(inner) => {
            inner.iter().flat_map(|property| patterns(property, &name)).collect()
        }
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('#') {
        Some(start) => name.strip_prefix(start).is_some_and(|number| number.parse::<u16>().is_ok()),
        None => pattern == name,
    }
}

impl TryFrom<LayoutText> for IndexLayout {
    type Error = Error;

    fn try_from(text: LayoutText) -> Result<Self, Error> {
        let mut layout = Self::new(&text.kind, &text.partition, &text.row)?;
        layout.discriminator = text.discriminator.unwrap_or(layout.discriminator);
        layout.version = text.version.unwrap_or(layout.version);
        layout.properties = text.properties;
        for index in text.indexes {
            let about = format!("the partition template of the index {}", index.name);
            let partition = index.partition.map(|text| template(&about, &text)).transpose()?;
            if let Some(table) = &index.table
                && let Err(error) = TableName::parse(table)
            {
                return Err(refused(
                    &format!("the table of the index {}", index.name),
                    &error.to_string(),
                ));
            }
            let declared = DeclaredIndex::new(&index.name, &index.row)?;
            layout = layout.with(DeclaredIndex {
                partition,
                table: index.table,
                is_unique: index.unique,
                project: index.project,
                ..declared
            })?;
        }
        Ok(layout)
    }
}

impl From<IndexLayout> for LayoutText {
    fn from(layout: IndexLayout) -> Self {
        let index = |index: DeclaredIndex| IndexText {
            name: index.name,
            row: index.row.to_string(),
            partition: index.partition.map(|template| template.to_string()),
            table: index.table,
            unique: index.is_unique,
            project: index.project,
        };
        Self {
            kind: layout.kind,
            discriminator: Some(layout.discriminator).filter(|name| name != Kind::PROPERTY),
            version: Some(layout.version).filter(|version| *version != 1),
            partition: layout.partition.to_string(),
            row: layout.row.to_string(),
            properties: layout.properties,
            indexes: layout.indexes.into_iter().map(index).collect(),
        }
    }
}
